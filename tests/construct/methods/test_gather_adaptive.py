"""Method "gather" with constants told box by box: fewer nodes, the same promises."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anyseq as aq
from anyseq.base import json_sha256
from anyseq.construct import Approximation, Example
from anyseq.construct.claims.claim import Claim
from anyseq.construct.request.functions import gaussian
from anyseq.construct.request.target import Function
from anyseq.construct.tables.fused import KuhnTable
from anyseq.construct.tables.fused_adaptive import HatTable
from anyseq.errors import FileProblem, InvalidArgument
from anyseq.verify.boxes import exact_hats
from construct.folders import tamper
from construct.forgery import facts_about, look_again

SPIKE = aq.functions["spike"]
WAVES = aq.Design(2, position=aq.Sinusoidal())
NEEDLE = gaussian("needle", "exp(-20000 |x - 1/3|²)", 20000.0, 1 / 3)
BLOB = gaussian("blob", "exp(-100 |x - 1|²)", 100.0, 1.0)


def local(example: Example) -> dict[str, Any]:
    return {"lipschitz": example.local_lipschitz, "curvature": example.local_curvature}


def even(example: Example, axes: int) -> dict[str, Any]:
    assert example.curvature is not None
    return {"lipschitz": example.lipschitz(axes, 1), "curvature": example.curvature(axes, 1)}


def cone(lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
    """8 where a box meets the cube of half side 1/8 around 0.7, else 0."""
    reach = ((lower - 0.7).clamp(min=0) + (0.7 - upper).clamp(min=0)).flatten(1).amax(1)
    return 8.0 * (reach < 0.125).double()


def hut(x: torch.Tensor) -> torch.Tensor:
    """As steep as the cone says: attains its Lipschitz constant everywhere inside."""
    return (1 - 8 * (x - 0.7).abs().amax((1, 2), keepdim=True)).clamp(min=0).expand_as(x)


def elbow(lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
    """2^14 below 1/64, else 0."""
    return 2.0**14 * (lower[:, 0, 0] < 1 / 64).double()


def bent(x: torch.Tensor) -> torch.Tensor:
    """From 0 to 1 with the second derivative 2^14 up to 1/128, then -2^14 up to 1/64, then 0."""
    up, down = x.clamp(max=1 / 128), (x - 1 / 128).clamp(0, 1 / 128)
    return 2.0**13 * (up.square() - down.square()) + 2.0**7 * down


def build(
    f: Any, design: aq.Design, tol: float, norm: str = "sup", features: int = 1, **constants: Any
) -> Approximation:
    result = aq.approximate(
        f, design, features=features, tol=tol, norm=norm, method="gather", **constants
    )
    assert isinstance(result.fused, HatTable)
    return result


RESULTS: dict[str, tuple[Function, Approximation]] = {
    "spike, sup": (SPIKE, build(SPIKE, aq.Design(2), 0.05, **local(SPIKE))),
    "spike, lp": (SPIKE, build(SPIKE, aq.Design(2), 0.05, "lp", **local(SPIKE))),
    "spike, mean": (SPIKE, build(SPIKE, aq.Design(2), 0.02, "mean", **local(SPIKE))),
    "one axis": (NEEDLE, build(NEEDLE, aq.Design(1), 0.05, **local(NEEDLE))),
    "three axes": (BLOB, build(BLOB, aq.Design(3), 0.4, **local(BLOB))),
    "two features": (SPIKE, build(SPIKE, aq.Design(1), 0.1, "lp", 2, **local(SPIKE))),
    "window": (
        SPIKE,
        build(SPIKE, aq.Design(2, aq.Window(1), bos=True), 0.1, "lp", **local(SPIKE)),
    ),
    "sinusoidal": (SPIKE, build(SPIKE, WAVES, 0.1, "lp", **local(SPIKE))),
    "hut": (hut, build(hut, aq.Design(2), 0.1, lipschitz=aq.Local(cone))),
    "bent": (bent, build(bent, aq.Design(1), 0.01, curvature=aq.Local(elbow))),
}


def leaf_points(result: Approximation, each: int, seed: int) -> torch.Tensor:
    """Centres, corners and middles of edges of all leaves, and inputs at random in them."""
    table = result.fused
    assert isinstance(table, HatTable)
    low, side = table.boxes[:, None, :-1].double(), table.boxes[:, None, -1:].double()
    axes = low.shape[2]
    halves = torch.tensor(list(itertools.product((0.0, 0.5, 1.0), repeat=axes))).double()
    rng = torch.Generator().manual_seed(seed)
    share = torch.rand(len(low), each, axes, generator=rng, dtype=torch.float64)
    x = torch.cat([low + side * halves, low + side * share], dim=1) / table.steps
    return x.view(-1, result.size.tokens, result.size.in_features)


@pytest.mark.parametrize("name", RESULTS)
def test_no_input_is_further_off_than_its_leaf_allows(name: str) -> None:
    """Also in L^p: what is proved there is a bound for every leaf first."""
    f, result = RESULTS[name]
    table = result.fused
    assert isinstance(table, HatTable)
    axes = table.boxes.shape[1] - 1
    x = leaf_points(result, 16, 0)
    side = table.boxes[:, -1] / table.steps
    steep, curved = table.constants.T
    allowed = torch.minimum(
        steep * side * (0.75 - 0.5 / (axes + 1)), curved * side**2 * axes / 8
    ).repeat_interleave(len(x) // len(side))
    off = (table(x) - f(x)).abs().flatten(1).amax(1)
    assert (off <= allowed + 1e-9).all()
    if result.error.norm == "sup":
        assert result.error.upper is not None
        assert off.max() <= result.error.upper <= result.facts.tol


@pytest.mark.parametrize("name", ["spike, lp", "spike, mean"])
def test_mean_errors_stay_below_what_is_proved(name: str) -> None:
    f, result = RESULTS[name]
    x = torch.rand(200_000, 2, 1, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    gap = (result(x) - f(x)).abs()
    seen = gap.square().sum((1, 2)).mean().sqrt() if result.error.norm == "lp" else gap.mean()
    assert result.error.upper is not None
    assert seen <= result.error.upper <= result.facts.tol


def test_the_bound_is_attained() -> None:
    """It could not be smaller: at centres of leaves the elbow bends as much as it says."""
    f, result = RESULTS["bent"]
    x = leaf_points(result, 0, 0)
    assert result.error.upper is not None
    assert (result(x) - f(x)).abs().max() > 0.999 * result.error.upper


@pytest.mark.parametrize("name", RESULTS)
def test_blocks_equal_the_look_up(name: str) -> None:
    _, result = RESULTS[name]
    x = leaf_points(result, 2, 1)
    x = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[:400]]
    with torch.no_grad():
        assert (result.model(x) - result(x)).abs().max() <= 1e-9


@pytest.mark.parametrize("name", ["spike, sup", "three axes", "sinusoidal"])
def test_rounding_stays_within_its_term(name: str) -> None:
    """The network, and the look-up, against the sum of hats in exact fractions."""
    _, result = RESULTS[name]
    facts = facts_about(result)
    exact = {name: tensor.numpy() for name, tensor in result.fused.tensors().items()}
    x = leaf_points(result, 1, 2)[::53][:8]
    rounding = next(term.value for term in result.error.terms if term.name == "rounding")
    with torch.no_grad():
        both = (result.model(x), result(x))
    for row, sequence in enumerate(x.flatten(1).tolist()):
        wanted = exact_hats(facts, exact, np.array(sequence))
        for found in both:
            for one, other in zip(found[row].flatten().tolist(), wanted.flatten(), strict=True):
                assert abs(Fraction(one) - other) <= rounding
    assert rounding < 1e-7


@settings(max_examples=10, deadline=None)
@given(st.floats(0.0, 1.0), st.floats(2, 300), st.sampled_from(["sup", "lp"]), st.integers(1, 2))
def test_attacks_do_not_exceed_what_is_proved(
    centre: float, k: float, norm: str, tokens: int
) -> None:
    f = gaussian("g", "", k, centre)
    result = aq.approximate(
        f, aq.Design(tokens), features=1, tol=0.15, norm=norm, method="gather", **local(f)
    )
    assert result.error.upper is not None
    assert result.error.lower <= result.error.upper <= 0.15
    if norm == "sup" and isinstance(result.fused, HatTable):
        x = leaf_points(result, 8, 0)
        assert (result(x) - f(x)).abs().max() <= result.error.upper


@pytest.mark.parametrize("tokens", [2, 3])
@pytest.mark.parametrize(("norm", "tol"), [("sup", 0.05), ("lp", 0.02)])
def test_a_local_feature_needs_five_times_fewer_nodes(norm: str, tol: float, tokens: int) -> None:
    """At the same proved error; a node takes more parameters, but there are fewer of these too."""
    design = aq.Design(tokens)
    made = aq.plan(design, 1, tol, norm=norm, budget=10**15, **local(SPIKE))
    (adaptive,) = (row for row in made.rows() if row["method"] == "gather")
    same = aq.plan(
        design, 1, adaptive["error"] * (1 + 1e-6), norm=norm, budget=10**15, **even(SPIKE, tokens)
    )
    (uniform,) = (row for row in same.rows() if row["method"] == "gather")
    assert uniform["error"] <= adaptive["error"] * (1 + 1e-6)
    assert adaptive["error"] <= tol
    assert adaptive["cells"] * 5 <= uniform["cells"]
    assert adaptive["parameters"] < uniform["parameters"]


def test_the_plan_knows_what_is_built() -> None:
    _, result = RESULTS["spike, sup"]
    made = aq.plan(aq.Design(2), 1, 0.05, **local(SPIKE))
    (row,) = (row for row in made.rows() if row["method"] == "gather")
    assert row["cells"] == result.facts.cells == len(result.fused.tensors()["keys"])
    assert row["parameters"] == result.size.parameters
    assert f"adaptive: {row['cells']:,} nodes of levels 1 to 6, uniform would need 4,225" in str(
        made
    )


def test_flat_bounds_give_the_even_grid() -> None:
    flat = aq.Local(lambda lower, upper: torch.full((len(lower),), 3.0, dtype=torch.float64))
    f = aq.functions["prefix-mean"]
    told = aq.approximate(f, aq.Design(2), features=1, tol=0.3, method="gather", lipschitz=flat)
    plain = aq.approximate(f, aq.Design(2), features=1, tol=0.3, method="gather", lipschitz=3.0)
    assert isinstance(told.fused, KuhnTable)
    assert told.size == plain.size
    for name, tensor in plain.model.state_dict().items():
        assert torch.equal(told.model.state_dict()[name], tensor)


def test_other_methods_use_the_constant_of_the_cube() -> None:
    bump = aq.functions["bump"]
    told, plain = (
        aq.approximate(bump, aq.Design(2), features=1, tol=0.5, norm="lp", method="yun", **known)
        for known in (local(bump), even(bump, 2))
    )
    assert told.size == plain.size
    assert told.error.upper == pytest.approx(plain.error.upper)


def test_causal_designs_keep_the_even_grid() -> None:
    """A token does not know in which box the later ones put it."""

    def steep(lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
        return torch.where(lower[:, 0, 0] < 0.1, 6.0, 0.5).double()

    def first(x: torch.Tensor) -> torch.Tensor:
        return 5.0 * (0.1 - x[:, :1]).clamp(min=0) + x / 2

    result = aq.approximate(
        first, aq.Design(2, aq.Causal(), bos=True), features=1, tol=0.2, lipschitz=aq.Local(steep)
    )
    assert isinstance(result.fused, KuhnTable)


def certified(result: Approximation) -> Claim:
    assert result.certificate is not None
    return result.certificate.claim


@pytest.mark.parametrize("name", RESULTS)
def test_certificates_hold(name: str) -> None:
    _, result = RESULTS[name]
    assert result.certificate is not None
    found = result.certificate.verify()
    assert found, found
    network = next(check for check in found.checks if check.name == "network")
    assert "SAMPLED" not in network.why
    assert all(check.passed for check in found.checks if check.name != "balls")


def test_large_grids_are_sampled_and_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyseq.verify.simplices._WORK", 1e6)
    _, result = RESULTS["spike, sup"]
    assert result.certificate is not None
    found = result.certificate.verify()
    assert found
    assert "SAMPLED, not proved: affine on" in str(found)


def test_planted_faults_are_found() -> None:
    _, result = RESULTS["spike, lp"]
    assert look_again(result)
    table, claim = result.fused.tensors(), certified(result)

    def moved(name: str, row: int, by: float) -> dict[str, torch.Tensor]:
        tensor = table[name].clone()
        tensor[row] += by
        return {name: tensor}

    for name, row, by in [
        ("values", 7, 1e-6),  # a wrong surplus
        ("keys", 7, 1),  # a node that is not there
        ("boxes", 3, 1),  # a box of another place and size
        ("constants", 3, -1e9),
    ]:
        assert not look_again(result, table=moved(name, row, by)), name
    assert not look_again(result, table={"constants": table["constants"] * 0})
    assert not look_again(result, table={"constants": table["constants"] * 2})
    missing = {name: table[name][1:] for name in ("boxes", "constants")}
    assert not look_again(result, table=missing)
    twice = {name: torch.cat([table[name][:1], table[name][:-1]]) for name in missing}
    assert not look_again(result, table=twice)
    down = result.model.state_dict()["down_weight"].clone()
    at = tuple((down.abs() * (down != down.round())).nonzero()[40].tolist())
    down[at] *= 1 + 1e-6
    assert not look_again(result, weights={"down_weight": down})
    smaller = tuple((name, on, value * 0.99) for name, on, value in claim.terms)
    wrong = replace(claim, terms=smaller, upper=claim.upper * 0.99)
    assert not look_again(result, claim=wrong)


def test_it_is_saved_and_loaded(tmp_path: Path) -> None:
    _, result = RESULTS["spike, lp"]
    result.save(tmp_path / "saved")
    again = aq.load(tmp_path / "saved")
    x = leaf_points(result, 1, 5)
    assert torch.equal(again(x), result(x))
    assert again.certificate is not None
    assert again.certificate.verify()


BROKEN: dict[str, Callable[[HatTable], dict[str, Any]]] = {
    "keys in float64": lambda table: {"keys": table.keys.double()},
    "boxes in float64": lambda table: {"boxes": table.boxes.double()},
    "no boxes": lambda table: {"boxes": table.boxes[:0], "constants": table.constants[:0]},
    "no nodes": lambda table: {"keys": table.keys[:0], "values": table.values[:0]},
    "flat boxes": lambda table: {"boxes": table.boxes[:, 0]},
    "keys in another order": lambda table: {"keys": table.keys.flip(0)},
}


@pytest.mark.parametrize("what", BROKEN)
def test_tables_that_are_none_are_refused_and_found(what: str) -> None:
    _, result = RESULTS["spike, lp"]
    table = result.fused
    assert isinstance(table, HatTable)
    with pytest.raises(InvalidArgument):
        replace(table, **BROKEN[what](table))
    assert not look_again(result, table=BROKEN[what](table))


@pytest.mark.parametrize("level", [-1, 0.5, False, None, 10**9], ids=str)
def test_levels_that_are_none_are_refused(level: object, tmp_path: Path) -> None:
    _, result = RESULTS["spike, lp"]
    result.save(tmp_path / "r")
    tamper(tmp_path / "r", ("fused", "coarsest"), level)
    with pytest.raises(FileProblem, match="coarsest"):
        aq.load(tmp_path / "r")


@pytest.mark.parametrize("with_its_hash", [False, True])
def test_another_look_up_of_the_same_table_is_found(with_its_hash: bool, tmp_path: Path) -> None:
    """Hats of levels below 5 are left out: no tensor tells."""
    _, result = RESULTS["spike, lp"]
    assert result.certificate is not None
    result.save(tmp_path / "r")
    tamper(tmp_path / "r", ("fused", "coarsest"), 5)
    wanted = {"look-up"} if with_its_hash else {"look-up", "facts"}
    if with_its_hash:
        facts = {
            "fused": result.fused.facts() | {"coarsest": 5},
            "design": result.design.to_dict(),
            "exceptional": result.error.exceptional,
        }
        tamper(tmp_path / "r", ("certificate", "facts_sha256"), json_sha256(facts))
    forged = aq.load(tmp_path / "r")
    x = leaf_points(result, 1, 5)
    assert float((forged(x) - result(x)).abs().max()) > 0.1
    assert forged.certificate is not None
    checks = forged.certificate.verify().checks
    assert {check.name for check in checks if check.passed is False} == wanted


def test_it_is_explained() -> None:
    f, result = RESULTS["spike, sup"]
    x = torch.tensor([[0.35], [0.31]], dtype=torch.float64)
    made = result.explain(x)
    assert made.apart is not None
    assert made.apart <= 1e-9
    total = sum(node.weight * node.value for node in made.nodes)
    assert torch.allclose(torch.as_tensor(total), result(x[None])[0], rtol=0, atol=1e-12)
    assert "x lies in the box [0.34375, 0.359375] x [0.296875, 0.3125]" in " ".join(
        str(made).split()
    )
    assert (made.y - f(x[None])[0]).abs().max() <= result.facts.tol


def test_sup_norm_bounds_do_not_depend_on_the_exponent() -> None:
    loose = aq.plan(aq.Design(2), 1, 0.1, **local(SPIKE)).rows()[0]["error"]
    assert loose == aq.plan(aq.Design(2), 1, 0.1, p=7.0, **local(SPIKE)).rows()[0]["error"]
    assert math.isfinite(loose)


def test_a_design_with_a_depth_gets_the_grid_that_fits_it() -> None:
    design = aq.Design(1, depth=50)
    result = aq.approximate(SPIKE, design, features=2, tol=0.2, **local(SPIKE))
    assert result.size.layers == 50
    assert result.error.upper is not None
    assert result.error.upper <= 0.2
