"""Sparse patterns to try constructions on."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st

import anyseq as aq

PATTERNS: dict[str, Any] = {
    "strided": aq.Strided(2),
    "strided in turns": aq.Strided(2).split(),
    "fixed": aq.Fixed(2),
    "fixed in turns": aq.Fixed(2).split(),
    "star": aq.Star(1),
    "window": aq.Window(1),
    "longformer": aq.Longformer(1),
    "bigbird": aq.BigBird(1, window=3, globals=1, random=1),
    "logsparse": aq.LogSparse(),
    "random": aq.Random(3, seed=1),
    "window, blocks, all": (aq.Window(1), aq.Blocks(2), aq.Full()),
    "heads alike": aq.PerHead(aq.Window(2), aq.Window(2)),
}


@st.composite
def masks(draw: st.DrawFn, tokens: int) -> tuple[torch.Tensor, ...]:
    """A cycle of up to three masks, nearly all with self-loops."""
    cycle = []
    for _ in range(draw(st.integers(1, 3))):
        bits = draw(st.lists(st.booleans(), min_size=tokens**2, max_size=tokens**2))
        mask = torch.tensor(bits).view(tokens, tokens)
        if draw(st.integers(0, 9)):
            mask |= torch.eye(tokens, dtype=torch.bool)
        cycle.append(mask)
    return tuple(cycle)
