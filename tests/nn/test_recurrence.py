import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.nn.recurrence import scanned
from nn.inputs import random, shaken

DIM, TOKENS = 5, 9


def made() -> aq.nn.GatedRecurrence:
    mixer = aq.nn.GatedRecurrence(DIM, dtype=torch.float64)
    shaken(mixer)
    return mixer


def slow(mixer: aq.nn.GatedRecurrence, x: torch.Tensor) -> torch.Tensor:
    """Token by token."""
    state, out = torch.zeros(len(x), DIM, dtype=torch.float64), []
    for token in x.unbind(1):
        gate = torch.sigmoid(token @ mixer.gate_proj.weight.T + mixer.gate_proj.bias)
        state = gate * state + (1 - gate) * (token @ mixer.v_proj.weight.T)
        out.append(state @ mixer.o_proj.weight.T)
    return torch.stack(out, 1)


@pytest.mark.parametrize("n", [1, 2, 3, 8, TOKENS, 40])
def test_the_definition(n: int) -> None:
    mixer, x = made(), random(2, n, DIM)
    torch.testing.assert_close(mixer(x), slow(mixer, x), rtol=0, atol=1e-12)


@given(st.integers(1, 40), st.sampled_from([0.0, 1e-30, 0.5, 0.999999, 1.0]))
def test_a_scan_is_the_loop(n: int, keep: float) -> None:
    factors = torch.full((1, n, 2), keep, dtype=torch.float64)
    new, state, start = random(1, n, 2), torch.zeros(1, 2, dtype=torch.float64), random(1, 1, 2)
    found, kept = scanned(factors, new)
    for i in range(n):
        state = keep * state + new[:, i]
        torch.testing.assert_close(found[:, i], state, rtol=1e-12, atol=1e-12)
        expected = torch.full((1, 2), keep ** (i + 1), dtype=torch.float64)
        torch.testing.assert_close(kept[:, i], expected, rtol=1e-12, atol=1e-12)
    assert (found + kept * start).isfinite().all()


def test_float32_is_stable_over_many_tokens() -> None:
    """Gates near 0 and near 1: no product over- or underflows into what is no number."""
    mixer = aq.nn.GatedRecurrence(DIM)
    x = torch.randn(1, 20_000, DIM, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        mixer.gate_proj.weight.mul_(20)
        out, exact = mixer(x), slow(mixer.double(), x.double())
    torch.testing.assert_close(out.double(), exact, rtol=0, atol=1e-5)


def test_causality_by_gradients() -> None:
    mixer, x = made(), random(1, TOKENS, DIM).requires_grad_()
    for i in range(TOKENS):
        (gradient,) = torch.autograd.grad(mixer(x)[0, i].sum(), x)
        felt = gradient[0].abs().amax(-1) > 0
        assert torch.equal(felt, torch.arange(TOKENS) <= i)


def test_a_cache_goes_on_from_the_last_state() -> None:
    mixer, x = made(), random(2, TOKENS, DIM)
    cache = aq.nn.LayerCache(TOKENS)
    with torch.no_grad():
        pieces = [mixer(part, cache=cache) for part in x.split([2, 1, 1, 5], dim=1)]
    torch.testing.assert_close(torch.cat(pieces, 1), mixer(x), rtol=0, atol=1e-12)
    assert cache.length == TOKENS


def test_padding_leaves_the_state_as_it_is() -> None:
    """Before the tokens, after them and between."""
    mixer, x = made(), random(1, TOKENS, DIM)
    real = torch.tensor([[False, False, True, True, False, True, True, True, False]])
    x = torch.where(real[..., None], x, torch.nan)
    out = mixer(x, key_mask=real)
    torch.testing.assert_close(out[real], mixer(x[real][None])[0], rtol=0, atol=1e-12)
    with pytest.raises(InvalidArgument, match="key_mask of dtype"):
        mixer(x, key_mask=real[:, :3])


def test_gradients() -> None:
    mixer = made()
    names = [name for name, _ in mixer.named_parameters()]

    def run(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        state = dict(zip(names, parameters, strict=True))
        return torch.as_tensor(torch.func.functional_call(mixer, state, (x,)))

    x = random(1, 5, DIM).requires_grad_()
    assert torch.autograd.gradcheck(run, (x, *mixer.parameters()))


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InvalidArgument, match="dim=0"):
        aq.nn.GatedRecurrence(0)
