"""attn-gym's mask_mods, written by others: an oracle for our patterns, and input for our operator.

https://github.com/meta-pytorch/attention-gym
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch

import anyseq as aq
from anyseq.patterns import Pattern
from ops.cases import assert_same_result, given, run

if torch.__version__ < "2.9":
    pytest.skip("attn-gym needs the FlexAttention of torch 2.9", allow_module_level=True)
masks: Any = import_module("attn_gym.masks")

N = 96
LENGTHS = (17, 40, 1, 38)
OFFSETS = torch.tensor([0, 17, 57, 58, 96])
HUBS = torch.zeros(N, dtype=torch.bool)
HUBS[[0, 50]] = True


def everybody(b: Any, h: Any, i: Any, j: Any) -> Any:
    return (i >= 0) & (j >= 0)


# name -> (theirs, ours)
SAME: dict[str, tuple[Callable[[], Any], Pattern]] = {
    "causal": (lambda: masks.causal_mask, aq.Causal()),
    "sliding window": (lambda: masks.generate_sliding_window(7), aq.Window(7) & aq.Causal()),
    "dilated": (lambda: masks.generate_dilated_sliding_window(12, 3), aq.Dilated(4, 3)),
    "dilated unevenly": (lambda: masks.generate_dilated_sliding_window(14, 3), aq.Dilated(4, 3)),
    "longformer": (
        lambda: masks.generate_global_sliding_window(5, HUBS),
        aq.Longformer(5, (0, 50)),
    ),
    "documents": (
        lambda: masks.generate_doc_mask_mod(everybody, OFFSETS),
        aq.Documents(LENGTHS),
    ),
    "causal documents": (
        lambda: masks.generate_doc_mask_mod(masks.causal_mask, OFFSETS),
        aq.Documents(LENGTHS) & aq.Causal(),
    ),
    "prefix": (
        lambda: masks.generate_prefix_lm_mask(20),
        aq.Causal() | aq.FromMask(lambda b, h, i, j: j < 20),
    ),
}

# Masks for which we have no name.
OTHERS: dict[str, Callable[[], Any]] = {
    "neighbours": lambda: masks.generate_natten(12, 8, 5, 3),
    "shared prefix": lambda: masks.generate_shared_prefix_mask_mod(
        OFFSETS, torch.tensor([0, 0, 2, 2])
    ),
    "documents of windows": lambda: masks.generate_doc_mask_mod(
        masks.generate_sliding_window(4), OFFSETS
    ),
}


def dense(mask_mod: Any) -> torch.Tensor:
    index, zero = torch.arange(N), torch.zeros((), dtype=torch.int64)
    mask: torch.Tensor = mask_mod(zero, zero, index[:, None], index[None, :])
    return mask.expand(N, N)


@pytest.mark.parametrize("name", SAME)
def test_our_patterns_are_theirs(name: str) -> None:
    theirs, ours = SAME[name]
    assert torch.equal(ours.mask(N), dense(theirs()))


@pytest.mark.parametrize("name", [*SAME, *OTHERS])
def test_their_functions_are_understood(name: str) -> None:
    """As they are, and as a FromMask, which has tiles."""
    mask_mod = SAME[name][0]() if name in SAME else OTHERS[name]()
    eps = torch.finfo(torch.float64).eps
    expected = run(given(N, pattern=dense(mask_mod)), "reference")
    for pattern, backend in (
        (mask_mod, "tiles"),
        (mask_mod, "reference"),
        (aq.FromMask(mask_mod), "native"),
        (aq.FromMask(mask_mod), "tiles"),
    ):
        got = run(given(N, pattern=pattern), backend)
        assert_same_result(got, expected, 2 * N, eps, f"{name}, {backend}")


def test_the_same_pattern_has_the_same_tiles_or_fewer() -> None:
    """A named pattern is never covered worse than the function it stands for."""
    q = torch.zeros(1, 1, 4096, 8)
    plans = [
        aq.attention_plan(q, q, q, pattern=pattern, backend="native")
        for pattern in (
            aq.Window(64) & aq.Causal(),
            aq.FromMask(masks.generate_sliding_window(64)),
        )
    ]
    assert plans[0].scores <= plans[1].scores < plans[1].dense_scores / 10
