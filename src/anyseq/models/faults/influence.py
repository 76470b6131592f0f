"""Which outputs change when one token does, by running the model."""

from __future__ import annotations

from collections.abc import Callable

import torch

from anyseq.models.faults.subject import Subject, differences

Run = Callable[[torch.Tensor], torch.Tensor]
"""Sequences (rows, tokens, ...) to outputs (rows, tokens, features)."""

TRIALS = 2


def influence(
    subject: Subject, x: torch.Tensor, run: Run | None = None, seed: int = 1
) -> torch.Tensor:
    """(tokens, tokens) float: [i, j] how much output i changes, relative to the largest, when token
    j of x (1, tokens, ...) gets other content; 0 if by no more than the subject's tolerance."""
    tokens = x.shape[1]
    other = subject.other(x, seed)
    chosen = torch.eye(tokens + 1, tokens, dtype=torch.bool).roll(1, 0)  # row 0 stays as it is
    chosen[0] = False
    chosen = chosen.reshape(tokens + 1, tokens, *[1] * (x.ndim - 2))
    rows = torch.where(chosen, other, x)
    out = (run or subject.run)(rows)
    return differences(out[:1].expand_as(out[1:]), out[1:], subject.tolerance).T


def worst(effect: torch.Tensor) -> tuple[tuple[int, int], float]:
    """The pair with the largest effect, and how large it is."""
    at = int(effect.argmax())
    pair = (at // effect.shape[1], at % effect.shape[1])
    return pair, float(effect[pair])
