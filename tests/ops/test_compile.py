"""Compiled graphs: whole, right at every length, and few."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch
import torch._dynamo.testing
from torch import nn

import anyseq as aq
from anyseq.ops import prepare
from anyseq.ops.operator.given import Given
from anyseq.ops.operator.keys import key_of
from ops.cases import coin, inputs, random, tile_arguments
from versions import compiles

MODULES: Mapping[str, Callable[[], nn.Module]] = {
    "dense": lambda: aq.nn.Attention(8, 2, dtype=torch.float64),
    "window": lambda: aq.nn.Attention(8, 2, pattern=aq.Window(3), dtype=torch.float64),
    "URPE": lambda: aq.nn.Attention(8, 2, position=aq.URPE(), tokens=130, dtype=torch.float64),
    "URPE, star": lambda: aq.nn.Attention(
        8, 2, position=aq.URPE(), tokens=130, pattern=aq.Star(4), dtype=torch.float64
    ),
    "a text": lambda: aq.nn.Attention(
        8, 2, pattern="window(3) | global(0)", dtype=torch.float64
    ),
    "strided heads": lambda: aq.nn.Attention(
        8, 4, kv_heads=2, pattern=aq.PerHead(*aq.Strided(4).split()), dtype=torch.float64
    ),
    "causal, T5Bias": lambda: aq.nn.Attention(
        8, 2, causal=True, position=aq.T5Bias(), dtype=torch.float64
    ),
    "sinks": lambda: aq.nn.Attention(
        8, 2, sinks=True, pattern=aq.Window(3), causal=True, dtype=torch.float64
    ),
    "a function": lambda: aq.nn.Attention(
        8, 2, pattern=lambda b, h, i, j: (i - j) % (h + 2) == 0, dtype=torch.float64
    ),
    "a function as a pattern": lambda: aq.nn.Attention(
        8, 2, pattern=aq.FromMask(lambda b, h, i, j: (i - j) % 3 == 0), dtype=torch.float64
    ),
    "Transformer": lambda: aq.nn.Transformer(
        aq.Design(130, patterns=aq.Strided(5).split(), position=aq.Rotary()),
        dim=8, depth=1, heads=2, dtype=torch.float64,
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def built(name: str) -> nn.Module:
    """The module with parameters that are all different from 0 and 1."""
    torch.manual_seed(0)
    module = MODULES[name]()
    with torch.no_grad():
        for at, parameter in enumerate(module.parameters()):
            parameter.add_(0.3 * random(*parameter.shape, seed=at))
    return module


def results(run: Callable[..., Any], module: nn.Module, n: int, **arguments: Any) -> list[Any]:
    """Output, gradients of the input and of the parameters."""
    x = random(2, n, 8).requires_grad_()
    for given in (x, *arguments.values()):
        torch._dynamo.mark_dynamic(given, 1)  # one graph for all lengths from the start
    out = run(x, **arguments)
    wanted = [x, *module.parameters()]
    return [out, *torch.autograd.grad(out.square().sum(), wanted, allow_unused=True)]


def check(name: str, lengths: tuple[int, ...], padded: bool = False, **how: Any) -> None:
    module = built(name)
    compiled = torch.compile(module, fullgraph=True, **how)
    for n in lengths:
        told = {"key_mask": coin(2, n)} if padded else {}
        torch.testing.assert_close(
            results(compiled, module, n, **told),
            results(module, module, n, **told),
            rtol=0,
            atol=1e-10,
        )


@compiles
@pytest.mark.parametrize("name", [name for name in MODULES if name != "URPE, star"])
def test_compiled_is_eager(name: str) -> None:
    check(name, (33, 130), backend="aot_eager")


@pytest.mark.parametrize("name", MODULES)
def test_a_graph_that_may_break_is_right(name: str) -> None:
    """What every version of torch can do: before 2.13 the graph breaks at attention."""
    module, found = built(name), []
    for run in (module, torch.compile(module, backend="aot_eager")):
        x = random(2, 33, 8).requires_grad_()
        out = run(x)
        found.append((out, *torch.autograd.grad(out.square().sum(), x)))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-10)


@compiles
def test_every_number_may_be_dynamic() -> None:
    check("window", (5, 64, 129), backend="aot_eager", dynamic=True)


@compiles
@pytest.mark.parametrize("name", ["dense", "window"])
def test_compiled_with_padding(name: str) -> None:
    check(name, (33, 130), padded=True, backend="aot_eager")


@compiles
@pytest.mark.parametrize("pattern", [None, aq.Window(3)])
def test_compiled_dropout(pattern: aq.Pattern | None) -> None:
    """It drops something, differently each time, the same for the same seed."""
    module = aq.nn.Attention(8, 2, pattern=pattern, dropout=0.5, dtype=torch.float64)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(results(compiled, module, 33))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)
    assert not torch.equal(found[0][0], found[2][0])
    module.eval()
    torch.testing.assert_close(compiled(random(2, 33, 8)), module(random(2, 33, 8)))


@compiles
@pytest.mark.parametrize("name", ["dense", "window", "URPE, star"])
def test_one_graph_serves_many_lengths(name: str) -> None:
    """The second length makes lengths free; no further one compiles anything."""
    graphs = 0

    def count(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> Callable[..., Any]:
        nonlocal graphs
        graphs += 1
        return graph.forward

    compiled = torch.compile(built(name), fullgraph=True, backend=count)
    with torch.no_grad():
        for n in (9, 40, 77, 100, 128, 129, 130, 65):
            compiled(random(2, n, 8))
    assert graphs <= 2


@compiles
@pytest.mark.parametrize("position", [aq.Rotary(), aq.URPE()])
def test_one_graph_serves_a_transformer_at_all_lengths(position: aq.Position) -> None:
    """From 2 tokens on, with gradients; torch makes a length of 1 a graph of its own."""
    torch.manual_seed(0)
    design = aq.Design(130, patterns=aq.Window(5) & aq.Causal(), position=position)
    module = aq.nn.Transformer(design, dim=8, depth=4, heads=2, dtype=torch.float64)
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend=counter)
    for n in (65, 2, 3, 64, 128, 130):
        x = random(2, n, 8).requires_grad_()
        found: list[torch.Tensor] = []
        expected: list[torch.Tensor] = []
        for run, into in ((compiled, found), (module, expected)):
            out = run(x)
            wanted = [x, *module.parameters()]
            into += [out, *torch.autograd.grad(out.square().sum(), wanted)]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    assert counter.frame_count == 1


@compiles
@pytest.mark.skipif(
    shutil.which("g++") is None and shutil.which("clang++") is None,
    reason="inductor writes C++ on the CPU, and there is no C++ compiler",
)
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method`:DeprecationWarning")  # of inductor
def test_compiled_by_inductor() -> None:
    check("URPE, star", (70,), backend="inductor")


CALLS: dict[str, dict[str, Any]] = {
    "dense": {},
    "sparse": {"pattern": key_of(aq.Star(1)), "key_mask": coin(2, 7)},
    "Toeplitz": {
        "bias": random(2, 13, seed=4).requires_grad_(),
        "gain": random(1, 15, seed=5).requires_grad_(),
        "is_causal": True,
    },
    "places": {
        "bias": random(2, 25, seed=4).requires_grad_(),
        "places": torch.tensor([0, 1, 2, 5, 6, 7, 10]),
    },
    "tensors": {
        "bias": random(2, 2, 7, 7, seed=4).transpose(2, 3).requires_grad_(),
        "gain": random(1, 2, 1, 7, seed=5).requires_grad_(),
        "mask": coin(2, 1, 7, 7),
    },
    "half": {"pattern": key_of(aq.Window(2))},
}


def call(name: str, native: bool) -> Given:
    dtype = torch.bfloat16 if name == "half" else torch.float64
    q, k, v = (side.to(dtype).requires_grad_() for side in inputs(7, heads=2))
    return tile_arguments(q, k, v, native=native, **CALLS[name])


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("name", CALLS)
def test_the_operator_keeps_torchs_rules(name: str, native: bool) -> None:
    torch.library.opcheck(torch.ops.anyseq.tiles.default, call(name, native))


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("name", CALLS)
def test_gradients_lie_in_memory_as_the_operator_promises(name: str, native: bool) -> None:
    """As projections leave q, k and v: tokens before heads. In half precision the gradients are
    copies, which must lie so, too."""
    given = call(name, native)
    sides = [
        side.detach().transpose(1, 2).contiguous().transpose(1, 2)
        for side in (given.q, given.k, given.v)
    ]
    terms = [None if term is None else term.detach() for term in (given.bias, given.gain)]
    given = given._replace(q=sides[0], k=sides[1], v=sides[2], bias=terms[0], gain=terms[1])
    out, lse = torch.ops.anyseq.tiles(*given)
    wants = given.bias is not None, given.gain is not None
    arguments = (out, None, out, lse, *wants, *given)
    torch.library.opcheck(torch.ops.anyseq.tiles_backward.default, arguments)
    for gradient, side in zip(torch.ops.anyseq.tiles_backward(*arguments), sides, strict=False):
        assert gradient.stride() == side.stride()


@compiles
def test_a_single_query_after_a_cache() -> None:
    q, k, v = inputs(16)
    pattern = aq.Window(7) & aq.Causal()
    prepare(pattern, "auto")

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = aq.attention(q[:, :, 15:], k, v, pattern=pattern, q_offset=15)
        return out

    compiled = torch.compile(run, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(q, k, v), run(q, k, v), rtol=0, atol=1e-12)
