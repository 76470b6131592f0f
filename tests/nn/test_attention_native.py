"""Attention layers by the native kernel, against the same layer by the formula."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anyseq as aq
from anyseq.nn import AttentionPosition
from ops.cases import coin, random

POSITIONS = (
    aq.NoPosition(),
    aq.RelativeBias(),
    aq.T5Bias(),
    aq.ALiBi(),
    aq.URPE(aq.RelativeBias()),
    aq.URPE(aq.NoPosition()),
)
PATTERNS = (None, aq.Window(3), ~aq.Causal(), aq.PerHead(aq.Window(2), aq.Blocks(5)))


def layers(dim: int, heads: int, **arguments: Any) -> tuple[aq.nn.Attention, aq.nn.Attention]:
    """Two alike, with random numbers everywhere: one by the kernel, one by the formula."""
    torch.manual_seed(0)
    everything: dict[str, Any] = {"tokens": 40, "dtype": torch.float64, **arguments}
    own = aq.nn.Attention(dim, heads, **everything, backend="native")
    plain = aq.nn.Attention(dim, heads, **everything, backend="reference")
    for at, weight in enumerate(own.parameters()):
        weight.data = 0.5 * random(*weight.shape, seed=at)
    plain.load_state_dict(own.state_dict())
    return own, plain


def results(layer: aq.nn.Attention, x: torch.Tensor, **told: Any) -> list[torch.Tensor]:
    """The output, and all gradients of a function of it."""
    x = x.clone().requires_grad_()
    out = layer(x, **told)
    wanted = [x, *layer.parameters(), *(one for one in told.values() if one.requires_grad)]
    return [out.detach(), *torch.autograd.grad(out.square().sum(), wanted)]


def close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("position", POSITIONS, ids=repr)
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_a_layer_computes_the_formula(pattern: aq.Pattern | None, position: aq.Position) -> None:
    """~Causal has a row that sees nothing."""
    own, plain = layers(12, 4, pattern=pattern, position=position)
    x = random(16, 40, 12)
    close(results(own, x), results(plain, x))


@settings(deadline=None, max_examples=40)
@given(
    batch=st.integers(1, 6),
    tokens=st.integers(1, 24),
    heads=st.integers(1, 3),
    head_dim=st.integers(1, 5),
    causal=st.booleans(),
    biases=st.sampled_from(["", "q", "qkvo"]),
    masked=st.booleans(),
    per_row=st.booleans(),
)
def test_any_sizes(
    batch: int,
    tokens: int,
    heads: int,
    head_dim: int,
    causal: bool,
    biases: str,
    masked: bool,
    per_row: bool,
) -> None:
    own, plain = layers(7, heads, head_dim=head_dim, causal=causal, biases=biases)
    x, shape = random(batch, tokens, 7), (batch if per_row else 1, heads, tokens, tokens)
    told = {"bias": random(*shape, seed=1), "gain": random(*shape, seed=2)}
    told = {name: term.requires_grad_() for name, term in told.items()}
    if masked:
        told["key_mask"] = coin(batch, tokens)
    close(results(own, x, **told), results(plain, x, **told))


@pytest.mark.parametrize("frozen", ["x", "q_proj.weight", "q_proj.bias", "v_proj.weight", "all"])
def test_what_needs_no_gradient_has_none(frozen: str) -> None:
    own, plain = layers(8, 2, position=aq.URPE(aq.RelativeBias()))
    for layer in (own, plain):
        for name, weight in layer.named_parameters():
            weight.requires_grad_(name != frozen and (frozen != "all" or "table" in name))
    found = []
    for layer in (own, plain):
        x = random(4, 40, 8).requires_grad_(frozen not in ("x", "all"))
        out = layer(x)
        out.square().sum().backward()
        found.append([out.detach(), x.grad, *(weight.grad for weight in layer.parameters())])
    assert sum(one is None for one in found[0]) == sum(one is None for one in found[1]) > 0
    for one, other in zip(*found, strict=True):
        if one is not None:
            close(one, other)


def test_numerical_gradients_of_both_orders() -> None:
    own, _ = layers(4, 2, pattern=~aq.Causal(), tokens=13)
    x, term = 0.3 * random(5, 13, 4), 0.3 * random(1, 2, 13, 13, seed=1)
    names, weights = zip(*own.named_parameters(), strict=True)

    def run(*given: torch.Tensor) -> torch.Tensor:
        changed = dict(zip(names, given[2:], strict=True))
        told = {"bias": given[1], "gain": given[1].cos()}
        out: torch.Tensor = torch.func.functional_call(own, changed, (given[0],), told)
        return out

    sides = [x, term, *(0.5 * weight.detach() for weight in weights)]
    sides = [side.clone().requires_grad_() for side in sides]
    assert torch.autograd.gradcheck(run, sides, fast_mode=True)
    assert torch.autograd.gradgradcheck(run, sides, fast_mode=True)


def test_gradients_of_gradients_agree_with_the_formula() -> None:
    """x is in the bias, too: each part of its gradient counts once."""
    own, plain = layers(8, 2)
    found = []
    for layer in (own, plain):
        x = random(3, 24, 8).requires_grad_()
        out = layer(x, bias=(x @ x.mT)[:, None].sin().expand(-1, 2, -1, -1))
        (first,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
        found.append([first, *torch.autograd.grad(first.square().sum(), [x, *layer.parameters()])])
    close(found[0], found[1])


def test_a_graph_that_is_kept_gives_the_same_gradients_again() -> None:
    """Memory is used again; what is kept is not in it."""
    own, _ = layers(8, 2, position=aq.URPE(aq.RelativeBias()))
    x = random(4, 40, 8)
    loss = own(x).square().sum()
    first = torch.autograd.grad(loss, list(own.parameters()), retain_graph=True)
    own(random(4, 40, 8, seed=9)).sum().backward()
    close(torch.autograd.grad(loss, list(own.parameters())), first)


def test_outputs_and_inputs_may_be_changed_or_strided() -> None:
    own, plain = layers(8, 2)
    found = []
    for layer in (own, plain):
        x = random(40, 4, 8).requires_grad_()
        out = layer(x.transpose(0, 1))
        out += 1.0
        out[:, 2].mul_(3.0)
        grad = torch.autograd.grad(out.transpose(0, 1).square().sum(), [x, *layer.parameters()])
        found.append([out.detach(), *grad])
    close(found[0], found[1])


@pytest.mark.parametrize("position", [aq.NoPosition(), aq.URPE(aq.RelativeBias())], ids=repr)
def test_gradients_of_many_functions_at_once(position: aq.Position) -> None:
    found = []
    for layer in layers(6, 2, position=position, pattern=~aq.Causal()):
        x = random(4, 40, 6).requires_grad_()
        many = random(3, 4, 40, 6, seed=1)
        out, wanted = layer(x), [x, *layer.parameters()]
        found.append(torch.autograd.grad(out, wanted, many, is_grads_batched=True))
    close(found[0], found[1])


def test_a_bias_that_reads_queries_gets_them() -> None:
    """However it came to be there."""

    def bias(q: torch.Tensor, scale: float, keys: int, first: int) -> torch.Tensor:
        return (q.sum(-1) * scale).sin()[..., None].expand(*q.shape[:3], keys)

    class Reads(AttentionPosition):
        def bias(self, q: torch.Tensor, scale: float, keys: int, first: int) -> torch.Tensor:
            return bias(q, scale, keys, first)

    own, _ = layers(8, 2, position=aq.URPE(aq.RelativeBias()))
    told, x = layers(8, 2)[0], random(16, 40, 8)
    q = told.q_proj(x).view(16, 40, 2, 4).transpose(1, 2)
    expected = told(x, bias=bias(q, 0.5, 40, 0), gain=own.position.gain())
    own.load_state_dict(told.state_dict(), strict=False)
    own.position.base = Reads()
    close(own(x), expected)
    own.position.base = AttentionPosition()
    own.position.base.bias = bias  # type: ignore[method-assign]
    close(own(x), expected)


def test_projections_of_other_kinds_are_called() -> None:
    own, _ = layers(8, 2)
    x = random(16, 40, 8).requires_grad_()
    before = own(x)
    wider = torch.nn.Linear(8, 12, bias=False, dtype=torch.float64)
    wider.weight.data[:8] = own.o_proj.weight.data
    own.o_proj = wider
    after = own(x)
    assert after.shape == (16, 40, 12)
    close(after[..., :8], before)
    own.o_proj = torch.nn.Linear(8, 8, bias=False, dtype=torch.float32)
    with pytest.raises(RuntimeError, match="dtype"):
        own(x)


def test_only_the_last_projection_learns() -> None:
    own, plain = layers(8, 2)
    for layer in (own, plain):
        for name, weight in layer.named_parameters():
            weight.requires_grad_(name == "o_proj.weight")
    x, gain = random(16, 40, 8), random(1, 2, 40, 40, seed=1)
    found = []
    for layer in (own, plain):
        out = layer(x, gain=gain)
        found.append([out, *torch.autograd.grad(out.square().sum(), [layer.o_proj.weight])])
    close(found[0], found[1])


def test_what_one_layer_leaves_is_nothing_to_the_next() -> None:
    """Of other sizes and heads; every backward pass after every forward."""
    shapes = [(16, 5, 2, 6), (8, 9, 3, 6), (30, 3, 1, 4), (16, 5, 2, 6)]
    pairs = [layers(dim, heads, position=aq.RelativeBias()) for *_, heads, dim in shapes]
    inputs = [random(batch, n, dim, seed=n).requires_grad_() for batch, n, _, dim in shapes]
    outs = [own(x) for (own, _), x in zip(pairs, inputs, strict=True)]
    for (own, plain), x, out in reversed(list(zip(pairs, inputs, outs, strict=True))):
        found = torch.autograd.grad(out.square().sum(), [x, *own.parameters()])
        close([out.detach(), *found], results(plain, x.detach()))


def test_a_row_that_sees_nothing_beside_one_with_nan() -> None:
    """The former has weights 0; what is no number stays so, and is not taken for the former."""
    own, _ = layers(12, 4)
    bias = torch.zeros(4, 4, dtype=torch.float64)
    bias[1], bias[2] = -torch.inf, torch.tensor([-torch.inf, torch.nan, 0.0, -torch.inf])
    out = own(random(16, 4, 12), bias=bias.requires_grad_())
    assert not out[:, 1].any()
    assert out[:, 2].isnan().all()
    assert out[:, [0, 3]].isfinite().all()


def test_the_output_may_be_changed_in_place_as_that_of_operators() -> None:
    own, plain = layers(12, 4, position=aq.RelativeBias())

    def gradients(layer: aq.nn.Attention) -> Any:
        x = random(16, 8, 12).requires_grad_()
        y = layer(x)
        y += x
        return torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])

    close(gradients(own), gradients(plain))


def test_scores_that_overflow_give_what_the_formula_gives() -> None:
    """All scores of a row are -inf then, though nothing hides them."""
    q = torch.full((1, 4, 128, 8), 1e30, requires_grad=True)
    v = random(1, 4, 128, 8).float()
    for backend in ("native", "tiles", "reference"):
        assert not aq.attention(q, -q.detach(), v, backend=backend).any()
