from collections.abc import Callable

import pytest
import torch

import anyseq as aq
from anyseq.errors import InvalidArgument
from nn.inputs import random

DIM, TOKENS = 3, 6

Make = Callable[[bool], torch.nn.Module]

MAKE: dict[str, Make] = {
    "bilinear": lambda causal: aq.nn.BilinearProjection(
        DIM, TOKENS, causal=causal, dtype=torch.float64
    ),
    "conv": lambda causal: aq.nn.SeparableConv(DIM, 4, causal=causal, dtype=torch.float64),
    "average": lambda causal: aq.nn.AverageMixer(DIM, causal=causal, dtype=torch.float64),
    "linear": lambda causal: aq.nn.LinearAttentionMixer(DIM, 3, causal=causal, dtype=torch.float64),
    "linear-raw": lambda causal: aq.nn.LinearAttentionMixer(
        DIM, 2, 4, normalised=False, causal=causal, dtype=torch.float64
    ),
    "bilinear-window": lambda causal: aq.nn.BilinearProjection(
        DIM, TOKENS, pattern=aq.Window(2), causal=causal, dtype=torch.float64
    ),
    "average-window": lambda causal: aq.nn.AverageMixer(
        DIM, pattern=aq.Window(2), causal=causal, dtype=torch.float64
    ),
    "linear-per-head": lambda causal: aq.nn.LinearAttentionMixer(
        DIM, 3, pattern=aq.PerHead(aq.Window(1), aq.Full(), aq.Strided(3)), causal=causal,
        dtype=torch.float64,
    ),
}  # fmt: skip
every = pytest.mark.parametrize("make", MAKE.values(), ids=MAKE.keys())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [1, 4, TOKENS])
def test_bilinear_projection(causal: bool, n: int) -> None:
    mixer = aq.nn.BilinearProjection(DIM, TOKENS, causal=causal, dtype=torch.float64)
    x = random(2, n, DIM)
    expected = torch.zeros(2, n, DIM, dtype=torch.float64)
    for i in range(n):
        for j in range(i + 1 if causal else n):
            expected[:, i] += mixer.token_weight[i, j] * x[:, j] @ mixer.o_proj.weight.T
    torch.testing.assert_close(mixer(x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", [1, 2, 5])
def test_separable_convolution(causal: bool, width: int) -> None:
    mixer = aq.nn.SeparableConv(DIM, width, causal=causal, dtype=torch.float64)
    x = random(2, 4, DIM)
    left = width - 1 if causal else (width - 1) // 2
    mixed = torch.zeros(2, 4, DIM, dtype=torch.float64)
    for i in range(4):
        for t in range(width):
            if 0 <= i + t - left < 4:
                mixed[:, i] += mixer.token_weight[:, t] * x[:, i + t - left]
    expected = mixed @ mixer.o_proj.weight.T
    torch.testing.assert_close(mixer(x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_average_is_attention_with_equal_weights(causal: bool) -> None:
    mixer = aq.nn.AverageMixer(DIM, causal=causal, dtype=torch.float64)
    attention = aq.nn.Attention(DIM, causal=causal, dtype=torch.float64)
    with torch.no_grad():
        attention.k_proj.weight.zero_()
        attention.v_proj.weight.copy_(mixer.v_proj.weight)
        attention.o_proj.weight.copy_(mixer.o_proj.weight)
    x = random(2, 5, DIM)
    torch.testing.assert_close(mixer(x), attention(x), rtol=0, atol=1e-12)
    mask = torch.tensor([[True] * 3 + [False] * 2, [False] * 5])
    torch.testing.assert_close(
        mixer(x, key_mask=mask), attention(x, key_mask=mask), rtol=0, atol=1e-12
    )


PATTERNS = [
    aq.Full(), aq.Causal(), aq.Window(1), aq.Strided(2), aq.Star(1), aq.Random(2),
    aq.Window(2) & ~aq.Window(1), aq.FromMask(torch.eye(TOKENS).bool()),
]  # fmt: skip
by_pattern = pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: type(p).__name__)


@by_pattern
@pytest.mark.parametrize("causal", [False, True])
def test_an_average_over_a_pattern(pattern: aq.Pattern, causal: bool) -> None:
    mixer = aq.nn.AverageMixer(DIM, pattern=pattern, causal=causal, dtype=torch.float64)
    x, mask = random(2, TOKENS, DIM), pattern.mask(TOKENS)
    key_mask = torch.tensor([[True] * 4 + [False] * 2, [True] * TOKENS])
    expected = torch.zeros_like(x)
    for row in range(2):
        for i in range(TOKENS):
            seen = [
                x[row, j]
                for j in range(TOKENS)
                if mask[i, j] and key_mask[row, j] and not (causal and j > i)
            ]
            if seen:
                expected[row, i] = torch.stack(seen).mean(0)
    expected = expected @ mixer.v_proj.weight.T @ mixer.o_proj.weight.T
    torch.testing.assert_close(mixer(x, key_mask=key_mask), expected, rtol=0, atol=1e-12)


@by_pattern
@pytest.mark.parametrize("causal", [False, True])
def test_a_bilinear_projection_over_a_pattern(pattern: aq.Pattern, causal: bool) -> None:
    mixer = aq.nn.BilinearProjection(
        DIM, TOKENS, pattern=pattern, causal=causal, dtype=torch.float64
    )
    x, mask = random(2, TOKENS, DIM), pattern.mask(TOKENS)
    expected = torch.zeros_like(x)
    for i in range(TOKENS):
        for j in range(i + 1 if causal else TOKENS):
            if mask[i, j]:
                expected[:, i] += mixer.token_weight[i, j] * x[:, j]
    expected = expected @ mixer.o_proj.weight.T
    torch.testing.assert_close(mixer(x), expected, rtol=0, atol=1e-12)


@every
def test_padding_is_not_seen(make: Make) -> None:
    mixer, x = make(False), random(2, TOKENS, DIM)
    mask = torch.arange(TOKENS) < torch.tensor([[4], [TOKENS]])
    out = mixer(x, key_mask=mask)
    torch.testing.assert_close(out[0, :4], mixer(x[:1, :4])[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(out[1], mixer(x[1:])[0], rtol=0, atol=1e-12)
    with pytest.raises(InvalidArgument, match=r"key_mask of dtype .*\(2, 6\)"):
        mixer(x, key_mask=mask[:, :3])


@every
def test_causal_mixers_do_not_look_ahead_and_have_a_cache(make: Make) -> None:
    mixer, x = make(True), random(2, TOKENS, DIM)
    changed = x.clone()
    changed[:, 3:] += 1
    out = mixer(x)
    torch.testing.assert_close(mixer(changed)[:, :3], out[:, :3], rtol=0, atol=1e-12)
    assert not torch.allclose(mixer(changed), out)
    assert not torch.allclose(make(False)(changed)[:, :3], make(False)(x)[:, :3])
    cache = aq.nn.LayerCache(TOKENS)
    with torch.no_grad():
        pieces = [mixer(part, cache=cache) for part in x.split([2, 1, 3], dim=1)]
    torch.testing.assert_close(torch.cat(pieces, 1), out, rtol=0, atol=1e-12)


@every
@pytest.mark.parametrize("causal", [False, True])
def test_gradients(make: Make, causal: bool) -> None:
    mixer = make(causal)
    names = [name for name, _ in mixer.named_parameters()]

    def run(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        state = dict(zip(names, parameters, strict=True))
        return torch.as_tensor(torch.func.functional_call(mixer, state, (x,)))

    x = random(1, 3, DIM).requires_grad_()
    assert torch.autograd.gradcheck(run, (x, *mixer.parameters()))


@every
def test_a_block_takes_any_mixer(make: Make) -> None:
    mixer, x = make(False), random(2, 5, DIM)
    assert isinstance(
        mixer,
        aq.nn.BilinearProjection
        | aq.nn.SeparableConv
        | aq.nn.AverageMixer
        | aq.nn.LinearAttentionMixer,
    )
    torch.testing.assert_close(aq.nn.Block(mixer)(x), x + mixer(x))


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InvalidArgument, match="x has 7 tokens, W_P was made for 6"):
        MAKE["bilinear"](False)(random(1, 7, DIM))
    with pytest.raises(InvalidArgument, match="width=0"):
        aq.nn.SeparableConv(DIM, 0)
    with pytest.raises(InvalidArgument, match="tokens=0"):
        aq.nn.BilinearProjection(DIM, 0)
    with pytest.raises(InvalidArgument, match=r"causal=1: expected True or False"):
        aq.nn.AverageMixer(DIM, causal=1)  # type: ignore[arg-type]
    by_head = aq.PerHead(aq.Window(1), aq.Full())
    by_row = aq.FromMask(lambda b, h, i, j: j <= i + b)
    for pattern in (by_head, by_row):
        with pytest.raises(InvalidArgument, match="differs by head or batch row, and Average"):
            aq.nn.AverageMixer(DIM, pattern=pattern)
        with pytest.raises(InvalidArgument, match="and BilinearProjection has one mask"):
            aq.nn.BilinearProjection(DIM, 4, pattern=pattern)
