"""The reference against torch, and against the formula written out."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_block_mask
from torch.nn.functional import scaled_dot_product_attention

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.ops import BACKENDS


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def qkv(n: int = 5, m: int = 5, heads: int = 2, kv_heads: int = 2) -> tuple[torch.Tensor, ...]:
    return (
        random(2, heads, n, 3, seed=1),
        random(2, kv_heads, m, 3, seed=2),
        random(2, kv_heads, m, 4, seed=3),
    )


def rows(b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
    return (i >= j) & (b < 3)


@given(st.integers(1, 6), st.integers(1, 6), st.booleans(), st.integers(0, 5))
def test_agrees_with_torch(n: int, m: int, masked: bool, seed: int) -> None:
    q, k, v = qkv(n, m)
    mask = random(2, 2, n, m, seed=seed) > 0 if masked else None
    if mask is not None:
        mask[..., 0] = True  # torch gives NaN for a row that sees nothing
    torch.testing.assert_close(
        aq.attention(q, k, v, pattern=mask),
        scaled_dot_product_attention(q, k, v, attn_mask=mask),
    )


def test_causal_scale_and_gqa_agree_with_torch() -> None:
    q, k, v = qkv(heads=4)
    torch.testing.assert_close(
        aq.attention(q, k, v, is_causal=True, enable_gqa=True, scale=0.3),
        scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True, scale=0.3),
    )
    q, k, v = qkv()
    causal = aq.attention(q, k, v, is_causal=True)
    torch.testing.assert_close(aq.attention(q, k, v, pattern=aq.Causal()), causal)
    torch.testing.assert_close(aq.attention(q, k, v, pattern=aq.Full(), is_causal=True), causal)


def test_bias_gain_and_hooks_are_where_the_formula_has_them() -> None:
    q, k, v = qkv()
    bias, gain = random(2, 9, seed=4), random(2, 9, seed=5)
    offset = torch.arange(5)[:, None] - torch.arange(5)[None, :] + 4
    scores = q @ k.transpose(-1, -2) * 3**-0.5 + bias[:, offset]
    expected = (torch.softmax(scores, -1) * gain[:, offset]) @ v
    toeplitz = aq.attention(q, k, v, bias=aq.Toeplitz(bias), gain=aq.Toeplitz(gain))
    torch.testing.assert_close(toeplitz, expected)
    dense = aq.attention(q, k, v, bias=bias[:, offset], gain=gain[:, offset])
    torch.testing.assert_close(dense, expected)
    hooks = aq.attention(
        q,
        k,
        v,
        score_mod=lambda score, b, h, i, j: score + bias[h, i - j + 4],
        weight_mod=lambda weight, b, h, i, j: weight * gain[h, i - j + 4],
    )
    torch.testing.assert_close(hooks, expected)


def test_decoding_from_a_cache_gives_the_rows_of_the_whole() -> None:
    q, k, v = qkv(6, 6)
    bias = aq.Toeplitz(random(2, 11, seed=4))
    whole = aq.attention(q, k, v, pattern=aq.Causal(), bias=bias)
    for i in range(6):
        row = aq.attention(
            q[:, :, i : i + 1],
            k[:, :, : i + 1],
            v[:, :, : i + 1],
            pattern=aq.Causal(),
            bias=bias,
            q_offset=i,
        )
        torch.testing.assert_close(row, whole[:, :, i : i + 1])


def test_a_row_that_sees_nothing_is_zero_with_zero_gradient() -> None:
    q, k, v = (side.requires_grad_() for side in qkv())
    pattern = ~aq.Causal()  # the last row sees nothing
    out, lse = aq.attention(q, k, v, pattern=pattern, return_lse=True)
    assert (out[:, :, -1] == 0).all()
    assert (lse[:, :, -1] == -torch.inf).all()
    out.sum().backward()
    assert q.grad is not None
    assert (q.grad[:, :, -1] == 0).all()
    assert all(torch.isfinite(side.grad).all() for side in (q, k, v) if side.grad is not None)


def test_padded_keys_are_not_seen() -> None:
    q, k, v = qkv()
    keep = torch.tensor([[True, True, True, False, False], [True] * 5])
    out = aq.attention(q, k, v, key_mask=keep)
    torch.testing.assert_close(out[:1], aq.attention(q[:1], k[:1, :, :3], v[:1, :, :3]))
    torch.testing.assert_close(out[1:], aq.attention(q[1:], k[1:], v[1:]))


def test_lse_is_the_log_sum_exp_of_the_scores() -> None:
    q, k, v = qkv()
    _, lse = aq.attention(q, k, v, return_lse=True, scale=1.0)
    torch.testing.assert_close(lse, (q @ k.transpose(-1, -2)).logsumexp(-1))


def test_gradients_of_everything() -> None:
    q, k, v = (side.requires_grad_() for side in qkv(3, 3))
    bias, gain = (random(2, 5, seed=s).requires_grad_() for s in (4, 5))
    assert torch.autograd.gradcheck(
        lambda q, k, v, bias, gain: aq.attention(
            q, k, v, bias=aq.Toeplitz(bias), gain=aq.Toeplitz(gain), pattern=aq.Causal()
        ),
        (q, k, v, bias, gain),
    )


def test_hardmax_picks_the_best_key() -> None:
    q, k, v = qkv()
    best = (q @ k.transpose(-1, -2)).argmax(-1)
    expected = torch.gather(v, 2, best[..., None].expand(-1, -1, -1, 4))
    torch.testing.assert_close(aq.attention(q, k, v, prob_map="hardmax"), expected)


def test_dropout_keeps_the_mean() -> None:
    q = k = torch.zeros(1, 1, 1, 1, dtype=torch.float64).expand(1, 1, 2000, 1)
    v = torch.ones(1, 1, 2000, 1, dtype=torch.float64)
    out = aq.attention(q, k, v, dropout_p=0.5)
    assert float(out.mean()) == pytest.approx(1, abs=0.01)
    assert float(out.std()) > 0.01


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"q": torch.zeros(2, 2, 3)}, "expected (batch, heads, tokens, features)"),
        ({"k": torch.zeros(2, 2, 5, 2, dtype=torch.float64)}, "equal B, M, D"),
        ({"q": random(2, 3, 5, 3)}, "q has 3 heads, k and v have 2"),
        ({"v": torch.zeros(2, 2, 5, 4)}, "one floating-point dtype"),
        ({"bias": torch.zeros(4, 4)}, "bias of shape (4, 4)"),
        ({"gain": aq.Toeplitz(torch.zeros(3, 9))}, "gain: Toeplitz of 3 heads"),
        ({"bias": aq.GridToeplitz(torch.zeros(3, 9, 9))}, "bias: GridToeplitz of 3 heads"),
        ({"gain": aq.GridToeplitz(torch.zeros(2, 9, 9))}, "gain: GridToeplitz, expected a float"),
        ({"bias": aq.GridToeplitz(torch.zeros(2, 3, 1))}, "bias: an array of shape (2, 1) has 2"),
        ({"key_mask": torch.ones(5, dtype=torch.bool)}, "expected bool of shape (B, M) = (2, 5)"),
        ({"backend": "magic"}, "backend='magic': expected one of 'auto', 'reference'"),
        ({"q_offset": -1}, "q_offset=-1"),
        ({"dropout_p": 1.0}, "dropout_p=1.0"),
        ({"scale": float("nan")}, "scale=nan"),
        ({"prob_map": "max"}, "prob_map='max'"),
        ({"pattern": 3}, "pattern=3"),
        ({"pattern": aq.Causal}, "did you mean Causal()?"),
        ({"pattern": lambda b, h, i, j: True}, "returns a Python bool, expected bool tensors"),
        ({"pattern": lambda b, h, i, j: torch.ones(4, 4).bool()[i, j]}, "4 is out of bounds"),
        ({"pattern": lambda b, h, i, j: torch.ones(7).bool()}, "returns shape (7,)"),
        ({"pattern": aq.FromMask(lambda b, h, i, j: i - j)}, "returns torch.int64, expected bool"),
        ({"pattern": aq.FromMask(lambda b, h, i, j: False)}, "returns a Python bool"),
        ({"pattern": aq.FromMask(lambda b, h, i, j: i[7] == j)}, "the mask_mod fails on index"),
        ({"pattern": aq.Causal().block_mask(6)}, "BlockMask of shape (1, 1, 6, 6); expected"),
        ({"pattern": aq.Window(1).block_mask(5), "q_offset": 1}, "queries and keys (6, 6)"),
        ({"pattern": create_block_mask(rows, 3, 1, 5, 5, "cpu")}, "batch and heads (2, 2) or 1"),
        ({"pattern": aq.Documents((2, 2))}, "Documents fits 4 tokens, the sequence has 5"),
        ({"pattern": aq.Window(1) | aq.Documents((2, 2))}, "fits 4 tokens"),
        ({"pattern": aq.Global((7,))}, "position 7 in a sequence of 5"),
        ({"pattern": torch.ones(5, 5)}, "expected bool of shape (N, M)"),
        ({"pattern": torch.ones(5, 5).bool().to("meta")}, "pattern on meta, q on cpu"),
        ({"key_mask": [[True] * 5] * 2}, "key_mask: list, expected a bool tensor"),
        ({"key_mask": torch.ones(2, 5)}, "key_mask of dtype torch.float32"),
        ({"key_mask": torch.ones(2, 5).bool().to("meta")}, "key_mask on meta, q on cpu"),
        ({"q": random(2, 2, 5, 3).to("meta")}, "q on meta, k on cpu, v on cpu"),
        ({"bias": torch.zeros(5, 5, device="meta")}, "bias on meta, q on cpu"),
        ({"bias": [0.0]}, "bias: list, expected a floating-point tensor or a Toeplitz"),
        ({"gain": torch.ones(5, 5).long()}, "gain: torch.int64, expected a floating-point"),
        ({"bias": aq.Toeplitz(torch.zeros(1, 7))}, "bias: the Toeplitz table covers offsets up to"),
        ({"gain": aq.Toeplitz(torch.zeros(2, 7))}, "gain: the Toeplitz table covers offsets up to"),
        ({"q": [1.0]}, "q list, k Tensor, v Tensor: expected three tensors"),
        ({"q": random(2, 3, 5, 3), "enable_gqa": True}, "q has 3 heads, k and v have 2"),
        ({"q": random(2, 0, 5, 3)}, "expected one head and one feature at least"),
        ({"k": random(2, 0, 5, 3), "v": random(2, 0, 5, 4), "enable_gqa": True}, "one head and"),
        ({"q": random(2, 2, 5, 0), "k": random(2, 2, 5, 0)}, "one feature at least"),
        ({"pattern": lambda b, h, i, j: (i - j).double()}, "returns torch.float64, expected bool"),
        ({"pattern": aq.Causal().mask(6)}, "a mask of shape (6, 6); expected (N, M) = (5, 5)"),
        ({"pattern": aq.Causal().mask(5).expand(3, 5, 5)}, "a mask of shape (3, 5, 5)"),
        ({"pattern": torch.ones(5, 5)}, "numbers that are added to the scores are a bias"),
        ({"pattern": torch.ones(2, 5).bool()}, "for padding use key_mask=, True = may be"),
        ({"q": random(2, 5, 3), "k": random(2, 5, 3), "v": random(2, 5, 3)}, "adds a batch axis"),
        ({"attn_mask": None}, "pattern=attn_mask (True = may attend); numbers: bias=attn_mask"),
        (
            {"key_padding_mask": None},
            "key_mask=~key_padding_mask, which has True = may be attended to",
        ),
        ({"window_size": 3}, "pattern=Window(radius)"),
        ({"is_casual": True}, "did you mean is_causal?"),
        ({"magic": 3}, "expected one of bias, cu_seqlens, document_ids"),
        ({"cu_seqlens": [0, 5]}, "expected an int32 or int64 tensor"),
        ({"cu_seqlens": torch.tensor([[0, 5]])}, "expected (documents + 1,)"),
        ({"cu_seqlens": torch.tensor([0, 4])}, "from 0 to 4: expected numbers that grow from 0"),
        ({"cu_seqlens": torch.tensor([0, 3, 2, 5])}, "expected numbers that grow"),
        (
            {"cu_seqlens": torch.tensor([0, 5]), "document_ids": torch.zeros(2, 5).long()},
            "cu_seqlens with document_ids",
        ),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    q, k, v = qkv()
    with pytest.raises(InvalidArgument) as caught:
        aq.attention(**{"q": q, "k": k, "v": v, **arguments})
    assert message in str(caught.value)


@pytest.mark.parametrize("backend", ["auto", "reference", "native", "tiles", "sdpa"])
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    dtype=st.sampled_from([torch.int32, torch.int64]),
)
def test_cumulative_lengths_are_documents(
    backend: str, lengths: list[int], dtype: torch.dtype
) -> None:
    """Each document alone, one after the other; one may be empty."""
    ends = torch.tensor([0, *lengths]).cumsum(0)
    q, k, v = qkv(int(ends[-1]), int(ends[-1]))
    found = aq.attention(
        q, k, v, cu_seqlens=ends.to(dtype), pattern=aq.Window(9), is_causal=True, backend=backend
    )
    parts = zip(*(side.split(lengths, 2) for side in (q, k, v)), strict=True)
    alone = [aq.attention(*part, pattern=aq.Window(9), is_causal=True) for part in parts]
    torch.testing.assert_close(found, torch.cat(alone, 2), rtol=0, atol=1e-12)


@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
@pytest.mark.parametrize("sizes", [(0, 0), (0, 3), (3, 0)])
@pytest.mark.parametrize("more", ["nothing", "mask", "window", "key_mask", "gain", "causal"])
def test_sequences_of_no_tokens(backend: str, sizes: tuple[int, int], more: str) -> None:
    """Nothing comes out, or zeros, and every backend that takes the call agrees."""
    n, m = sizes
    q, k = torch.randn(2, 3, n, 4), torch.randn(2, 3, m, 4)
    every: dict[str, dict[str, Any]] = {
        "nothing": {},
        "mask": {"pattern": torch.zeros(n, m, dtype=torch.bool)},
        "window": {"pattern": aq.Window(2)},
        "key_mask": {"key_mask": torch.zeros(2, m, dtype=torch.bool)},
        "gain": {"gain": torch.ones(n, m)},
        "causal": {"is_causal": True},
    }
    arguments = every[more]
    if backend != "auto" and aq.attention_plan(q, k, k, **arguments).refused.get(backend):
        return
    q.requires_grad_(backend != "flex")
    out = aq.attention(q, k, k, backend=backend, **arguments)
    assert torch.equal(out, torch.zeros(2, 3, n, 4))
    if out.requires_grad:
        out.sum().backward()


def test_a_nan_that_no_input_holds_is_explained() -> None:
    x = torch.zeros(2, 4, 6, 3)
    x[1, 2, 3] = 1e25
    place = r"query 3 of head 2, batch row 1, up to 3e\+50, overflow torch.float32"
    with pytest.raises(InvalidArgument, match=place):
        aq.attention(x, x, x)
    y = torch.randn(1, 1, 6, 3)
    nan = float("nan")
    for name, hook in (
        ("score_mod", lambda s, b, h, i, j: torch.where(j == 2, nan, s)),
        ("weight_mod", lambda w, b, h, i, j: w * nan),
    ):
        given: dict[str, Any] = {name: hook}
        with pytest.raises(InvalidArgument, match=f"{name} gives NaN"):
            aq.attention(y, y, y, **given)
    big = torch.full((6, 6), 3e38)
    with pytest.raises(InvalidArgument, match="scores and bias, or values and gain"):
        aq.attention(y, y, y.sign() * 3e38, gain=big)
