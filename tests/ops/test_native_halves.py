"""The native kernel reads and writes halves itself: as if torch had converted them, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import anyseq as aq
from anyseq.ops.native import missing
from anyseq.ops.operator.given import Given
from anyseq.ops.operator.keys import key_of
from ops.cases import coin, random, tile_arguments

pytestmark = pytest.mark.skipif(missing() is not None, reason="no native kernel")

HALVES = (torch.bfloat16, torch.float16)
CALLS: dict[str, dict[str, Any]] = {
    "window": {"pattern": key_of(aq.Window(5))},
    "causal, padded": {"is_causal": True, "key_mask": coin(2, 70)},
    "some passes": {"pattern": key_of(aq.Star(3))},
    "gathered": {"pattern": key_of(aq.Strided(8))},
    "terms": {
        "bias": random(4, 139, seed=4).float(),
        "gain": random(1, 1, 70, 70, seed=5).float(),
        "softcap": 2.0,
    },
    "places": {
        "bias": random(4, 139, seed=4).float(),
        "places": torch.arange(70).flip(0),
        "pattern": key_of(aq.Window(5)),
    },
    "nobody": {"pattern": key_of(~aq.Full())},
    "large": {"gain": torch.full((1, 1, 1, 1), 3e4), "pattern": key_of(aq.Window(5))},
    "small": {"gain": torch.full((1, 1, 1, 1), 2e-6), "pattern": key_of(aq.Window(5))},
}


def arguments(name: str, dtype: torch.dtype) -> Given:
    """k and v with half as many heads, tokens before heads in memory."""
    q = random(2, 70, 4, 8, seed=1).transpose(1, 2).to(dtype)
    k, v = (random(2, 70, 2, size, seed=size).transpose(1, 2).to(dtype) for size in (8, 6))
    return tile_arguments(q, k, v, scale=0.4, **CALLS[name])


def same_bits(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return found.dtype == expected.dtype and torch.equal(found, expected)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", CALLS)
def test_halves_are_float32_rounded_once(name: str, dtype: torch.dtype) -> None:
    halves = arguments(name, dtype)
    singles = halves._replace(q=halves.q.float(), k=halves.k.float(), v=halves.v.float())
    out, lse = torch.ops.anyseq.tiles(*halves)
    expected, expected_lse = torch.ops.anyseq.tiles(*singles)
    assert same_bits(out, expected.to(dtype))
    assert same_bits(lse, expected_lse)
    coming = random(*out.shape, seed=9).to(dtype)
    wants = halves.bias is not None, halves.gain is not None
    found = torch.ops.anyseq.tiles_backward(coming, None, out, lse, *wants, *halves)
    whole = torch.ops.anyseq.tiles_backward(
        coming.float(), None, out.float(), lse, *wants, *singles
    )
    for at, (one, other) in enumerate(zip(found, whole, strict=True)):
        assert same_bits(one, other.to(dtype) if at < 3 else other), (
            f"gradient {at} of q, k, v, bias, gain"
        )


@pytest.mark.parametrize("dtype", HALVES)
def test_every_number_is_read_and_written(dtype: torch.dtype) -> None:
    """One key: its value comes out, for all numbers of 16 bits but NaN; infinity stays so."""
    every = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    v = every[~every.isnan()].reshape(1, 1, 1, -1)
    one = torch.ones(1, 1, 1, 1, dtype=dtype)
    out, _ = torch.ops.anyseq.tiles(*arguments("window", dtype)._replace(q=one, k=one, v=v))
    finite = v.isfinite()
    assert torch.equal(out[finite].float(), v[finite].float())
    torch.testing.assert_close(out[~finite], v[~finite], equal_nan=True)
