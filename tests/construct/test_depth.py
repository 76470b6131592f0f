"""A design of a depth gets exactly so many layers, or the number that it would need."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

import anyseq as aq
from anyseq.construct.methods import METHODS
from anyseq.errors import CannotApproximate
from construct.inputs import random

FREE = aq.NoPosition()
MORE = 5
"""function, design, method, tolerance in L^2, and the fewest layers with which it is served."""
CASES = {
    "boltzmann": ("attention", aq.Design(2), "boltzmann", 0.7, 5),
    "boltzmann, rounds": ("attention", aq.Design(2, aq.Window(1)), "boltzmann", 0.9, 5),
    "fit": ("attention", aq.Design(2), "fit", 0.5, 3),
    "gather": ("attention", aq.Design(2), "gather", 0.5, 1),
    "partition": ("attention", aq.Design(2), "partition", 0.7, 2),
    "sum": ("attention", aq.Design(2, position=FREE), "sum", 0.9, 32),
    "yun": ("sort", aq.Design(2), "yun", 0.4, 20),
    "yun, no positions": ("plus-mean", aq.Design(2, position=FREE), "yun", 0.9, 281),
    "yun, sparse": ("attention", aq.Design(2, aq.Window(1)), "yun", 0.4, 48),
    "yun, gains": ("sort", aq.Design(2, position=aq.URPE()), "yun", 0.4, 24),
}


def build(name: str, depth: int | None) -> aq.Approximation:
    function, design, method, tol, _ = CASES[name]
    example = aq.functions[function]
    return aq.approximate(
        example, replace(design, depth=depth), features=1, tol=tol, norm="lp", method=method,
        lipschitz=None if method == "fit" else example.lipschitz(2, 1),
    )  # fmt: skip


def test_all_methods_are_here() -> None:
    assert {method for _, _, method, _, _ in CASES.values()} == METHODS.keys()


@pytest.mark.parametrize("name", CASES)
def test_a_deeper_design_is_filled_up(name: str, tmp_path: Path) -> None:
    # "fit" takes what blocks there is room for, up to 8 between its router and its selector
    plain = build(name, 10 if name == "fit" else None)
    layers = plain.size.layers + MORE
    deep = build(name, layers)
    assert (deep.size.layers, len(deep.model)) == (layers, layers)
    assert replace(deep.size, layers=plain.size.layers) == plain.size
    assert sum(stage.layers for stage in deep.facts.stages) == layers
    assert not any(block.mixer or block.feedforward for block in list(deep.model)[-MORE:])

    x = random(deep, 64)
    with torch.no_grad():
        assert torch.equal(deep.model(x), plain.model(x))
    assert torch.equal(deep(x), plain(x))
    assert deep.error.upper == plain.error.upper
    apart = deep.explain(x[0]).apart
    assert apart is not None
    assert apart <= 1e-9
    if deep.certificate is not None:
        assert deep.certificate.verify()
    deep.save(tmp_path / "T")
    assert torch.equal(aq.load(tmp_path / "T")(x), deep(x))

    deep.export("safetensors", tmp_path / "T.safetensors")
    with safe_open(tmp_path / "T.safetensors", framework="pt") as tensors:
        assert torch.equal(tensors.get_tensor("network.halves"), deep.model.get_buffer("halves"))


@pytest.mark.parametrize("name", ["gather", "partition"])
def test_idle_layers_are_exported(name: str, tmp_path: Path) -> None:
    """As nothing: the graph of blocks is that of the others."""
    result = build(name, 10)
    x = random(result, 64)
    result.export("torch.export", tmp_path / "T.pt2", what="network")
    with torch.no_grad():
        exported = torch.export.load(tmp_path / "T.pt2").module()(x)
        assert float((exported - result.model(x)).abs().max()) <= 1e-12


@pytest.mark.parametrize("name", CASES)
def test_a_plan_has_the_layers_of_the_design_or_says_how_many_it_needs(name: str) -> None:
    function, design, method, tol, fewest = CASES[name]
    lipschitz = aq.functions[function].lipschitz(2, 1)

    def plan(depth: int) -> aq.Plan:
        deep = replace(design, depth=depth)
        return aq.plan(deep, 1, tol, lipschitz=lipschitz, norm="lp", bound=2.0)

    for depth in (fewest, fewest + 1, 300):
        rows = {row["method"]: row for row in plan(depth).rows()}
        assert rows[method]["layers"] == depth
    if fewest > 1:
        small = plan(fewest - 1)
        reason = f"it needs {fewest} layers; the design has depth={fewest - 1}"
        assert small.refused[method] == reason
        with pytest.raises(CannotApproximate, match=reason):
            small.choose(method)
