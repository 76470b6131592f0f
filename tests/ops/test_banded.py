"""The blocks of an exported window against the formula, in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anyseq as aq
from anyseq.ops import banded, reference
from anyseq.ops.checks import checked
from ops.cases import coin, documents, inputs, random, table

PATTERNS = [
    aq.Window(3),
    aq.Window(70),
    aq.Window(9) & aq.Causal(),
    aq.Dilated(2, 5),
    aq.Blocks(7),
    aq.Window(2) | aq.Dilated(2, 4),
    aq.Window(8) & aq.Strided(3),
    aq.PerHead(aq.Window(1), aq.Blocks(40)),
]


@settings(max_examples=80)
@given(
    n=st.integers(1, 150),
    pattern=st.sampled_from(PATTERNS),
    causal=st.booleans(),
    padded=st.booleans(),
    packed=st.booleans(),
    terms=st.booleans(),
)
def test_blocks_are_the_formula(
    n: int, pattern: aq.Pattern, causal: bool, padded: bool, packed: bool, terms: bool
) -> None:
    told: dict[str, Any] = {"pattern": pattern, "is_causal": causal, "return_lse": True}
    if padded:
        told["key_mask"] = coin(2, n)
    if packed:
        told["document_ids"] = documents(n)
    if terms:
        told |= {"bias": table(n, 4), "gain": table(n + 3, 1, seed=5), "softcap": 2.0}
    call = checked(*inputs(n, heads=4, kv_heads=2), enable_gqa=True, **told)
    assert banded.fits(call)
    torch.testing.assert_close(
        banded.attention(call), reference.attention(call), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"pattern": aq.Causal()},
        {"pattern": aq.Star(2)},
        {"pattern": aq.Window(2) | aq.Causal()},
        {"pattern": aq.Window(2), "bias": random(9, 9)},
        {"pattern": aq.Window(2), "q_offset": 1},
        {"pattern": aq.Window(2), "score_mod": lambda s, b, h, i, j: s},
        {"pattern": coin(9, 9)},
    ],
)
def test_what_reaches_far_is_left_to_the_formula(told: dict[str, Any]) -> None:
    assert not banded.fits(checked(*inputs(9), **told))
