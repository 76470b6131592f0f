import math

import pytest
import torch

import anyseq as aq
from anyseq.errors import InvalidArgument
from nn.inputs import random, shaken

DIM, HEADS, SIZE, TOKENS = 6, 2, 4, 7
PATTERNS = {
    "full": aq.Full(),
    "causal": aq.Causal(),
    "window": aq.Window(1),
    "star": aq.Star(1),
    "random": aq.Random(2),
    "far": ~aq.Window(2),
    "per head": aq.PerHead(aq.Window(1), aq.Causal()),
    "mask": aq.FromMask(torch.eye(TOKENS).bool()),
    "by row and head": aq.FromMask(lambda b, h, i, j: (j <= i + b) & (j != h)),
}


def slow(
    mixer: aq.nn.LinearAttentionMixer,
    x: torch.Tensor,
    mask: torch.Tensor,
    normalised: bool,
) -> torch.Tensor:
    """The definition, one pair of tokens at a time; mask: (batch, heads, n, n)."""

    def phi(t: torch.Tensor) -> torch.Tensor:
        values = [v + 1 if v > 0 else math.exp(v) for v in t.tolist()]
        return torch.tensor(values, dtype=torch.float64)

    batch, n = x.shape[:2]
    q, k, v = ((x @ part.weight.T).view(batch, n, HEADS, SIZE)
               for part in (mixer.q_proj, mixer.k_proj, mixer.v_proj))  # fmt: skip
    out = torch.zeros(batch, n, HEADS, SIZE, dtype=torch.float64)
    for b in range(batch):
        for h in range(HEADS):
            for i in range(n):
                total = 0.0
                for j in range(n):
                    if mask[b, h, i, j]:
                        weight = float(phi(q[b, i, h]) @ phi(k[b, j, h])) / SIZE
                        total += weight
                        out[b, i, h] += weight * v[b, j, h]
                if normalised and total > 0:
                    out[b, i, h] /= total
    return out.flatten(2) @ mixer.o_proj.weight.T


def masks(pattern: aq.Pattern, batch: int, n: int) -> torch.Tensor:
    mod = pattern.at(n)
    rows = [
        [mod(*map(torch.tensor, (b, h, i, j))) for i in range(n) for j in range(n)]
        for b in range(batch)
        for h in range(HEADS)
    ]
    return torch.tensor(rows).view(batch, HEADS, n, n)


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS.keys())
def test_the_definition(pattern: aq.Pattern, causal: bool, normalised: bool) -> None:
    mixer = aq.nn.LinearAttentionMixer(
        DIM, HEADS, SIZE, pattern=pattern, causal=causal, normalised=normalised, dtype=torch.float64
    )
    shaken(mixer)
    x = random(2, TOKENS, DIM)
    mask = masks(pattern, 2, TOKENS)
    mask = mask.tril() if causal else mask
    expected = slow(mixer, x, mask, normalised)
    torch.testing.assert_close(mixer(x), expected, rtol=0, atol=1e-12)
    key_mask = torch.tensor([[True, False] * 3 + [True], [False] * TOKENS])
    expected = slow(mixer, x, mask & key_mask[:, None, None], normalised)
    real = mixer(x, key_mask=key_mask)[0, ::2]  # what padding itself gets does not matter
    torch.testing.assert_close(real, expected[0, ::2], rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("normalised", [True, False])
def test_sums_of_the_past_are_sums_over_pairs(n: int, normalised: bool) -> None:
    """In chunks or not, with a cache or without."""
    torch.manual_seed(0)
    fast, dense = (
        aq.nn.LinearAttentionMixer(
            DIM, HEADS, pattern=pattern, normalised=normalised, dtype=torch.float64
        )
        for pattern in (aq.Causal(), aq.Causal() & ~aq.Window(999) | aq.Causal())
    )
    dense.load_state_dict(fast.state_dict())
    assert (fast.sight.span, dense.sight.span) == ("past", None)
    x = random(2, n, DIM)
    torch.testing.assert_close(fast(x), dense(x), rtol=1e-12, atol=1e-12)
    cache = aq.nn.LayerCache(n)
    with torch.no_grad():
        pieces = [fast(part, cache=cache) for part in x.split([n - n // 2, n // 2], dim=1)]
    torch.testing.assert_close(torch.cat(pieces, 1), fast(x), rtol=1e-12, atol=1e-12)


def test_time_and_memory_grow_with_the_tokens() -> None:
    """A table of all pairs of 100,000 tokens would take 40 GB."""
    for causal in (False, True):
        mixer = aq.nn.LinearAttentionMixer(4, causal=causal)
        out = mixer(torch.randn(1, 100_000, 4, generator=torch.Generator().manual_seed(0)))
        assert out.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("pattern", [aq.Full(), aq.Causal(), aq.Window(2)], ids=str)
def test_large_inputs_have_finite_gradients_and_weights_that_sum_to_1(
    pattern: aq.Pattern, dtype: torch.dtype
) -> None:
    """φ of what is far below 0 is small, and so are sums of products of it."""
    mixer = aq.nn.LinearAttentionMixer(DIM, HEADS, pattern=pattern, dtype=dtype)
    for size in (1.0, 1e2, 1e4):
        x = (size * random(4, 80, DIM)).to(dtype).requires_grad_()
        out = mixer(x)
        assert out.isfinite().all()
        gradients = torch.autograd.grad(out.square().sum(), [x, *mixer.parameters()])
        assert all(gradient.isfinite().all() for gradient in gradients)
        same = x[:, :1].expand_as(x)
        expected = mixer.o_proj(mixer.v_proj(same))
        torch.testing.assert_close(mixer(same), expected, rtol=1e-4, atol=1e-5 * size)


def test_a_row_that_sees_nothing_passes_no_gradient() -> None:
    mixer = aq.nn.LinearAttentionMixer(DIM, pattern=~aq.Full(), dtype=torch.float64)
    x = random(1, 3, DIM).requires_grad_()
    out = mixer(x)
    assert (out == 0).all()
    out.sum().backward()
    assert x.grad is not None
    assert (x.grad == 0).all()


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InvalidArgument, match="dim=5 is not a multiple of heads=2"):
        aq.nn.LinearAttentionMixer(5, 2)
    with pytest.raises(InvalidArgument, match="head_dim=0"):
        aq.nn.LinearAttentionMixer(5, 2, 0)
    with pytest.raises(InvalidArgument, match="pattern=3"):
        aq.nn.LinearAttentionMixer(4, pattern=3)
