"""Which tokens of a call's output depend on which tokens of its input, and the parts that mix them.

The gradient of output k by input j is exactly 0 where nothing leads from j to k: what a mask hides
gets weight 0, in floating point too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from anyseq.base import generator
from anyseq.models.calls import Call

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Step:
    """A call that maps each token by itself, or one that moves content between tokens and has no
    part that explains it.

    sees: (tokens, tokens) bool, [k, j] if output k depends on token j. None: on token k only.
    within: the calls around it, the outermost first.
    borrows: whether it attends to keys that were made before, so that x alone moves nothing.
    """

    call: Call
    sees: Array | None
    within: tuple[Call, ...]
    borrows: bool = False


def dependence(x: torch.Tensor, out: torch.Tensor, rows: int) -> Array:
    """(tokens, tokens) bool [k, j], for x and out (rows, tokens, features) or (tokens, rows,
    features). Rows of the batch hold equal sequences and do not influence each other: row b is used
    for outputs b, b + rows, ..."""
    if x.shape[0] != rows:
        turned = out.transpose(0, 1)
        return _dependence(x, turned, lambda gradient: gradient.transpose(0, 1))
    return _dependence(x, out, lambda gradient: gradient)


def _dependence(
    x: torch.Tensor, out: torch.Tensor, lay: Callable[[torch.Tensor], torch.Tensor]
) -> Array:
    batch, tokens = out.shape[:2]
    found = np.zeros((tokens, tokens), dtype=bool)
    rng = generator(0)
    for first in range(0, tokens, batch):
        rows = torch.arange(min(batch, tokens - first))
        chosen = out[rows, first + rows]
        weights = torch.randn(chosen.shape, generator=rng, dtype=torch.float64).to(chosen)
        gradient = _gradient((chosen * weights).sum(), x)
        if gradient is not None:
            found[first : first + len(rows)] = (lay(gradient)[rows] != 0).any(2).cpu().numpy()
    return found


def follows(later: torch.Tensor, earlier: torch.Tensor) -> bool:
    """Whether one tensor was computed from another."""
    return _gradient(later.sum(), earlier) is not None


def steps(call: Call, rows: int, within: tuple[Call, ...] = ()) -> list[Step]:
    """The smallest calls that explain what a call does to sequences, in their order.

    A call whose parts do not explain what it mixes mixes by itself: a recurrence may have
    convolutions for parts, and attention a module that only turns its queries.
    """
    inner = (*within, call)
    if not call.is_sequence or rows not in call.shape[:2]:
        return [one for part in call.parts for one in steps(part, rows, inner)]
    if type(call.module) is torch.nn.Linear:  # what else its hooks do shows in the call around it
        return [Step(call, None, within)]
    assert call.x is not None
    assert call.out is not None
    sees = dependence(call.x, call.out, rows)
    if not mixes(sees):
        return [Step(call, None, within)]
    parts = [one for part in call.parts for one in steps(part, rows, inner)]
    if (sees & ~_composed(parts, len(sees))).any() or _mixed_before(call, parts, rows):
        return [Step(call, sees, within)]
    return parts


def _mixed_before(call: Call, parts: Sequence[Step], rows: int) -> bool:
    """Whether the first part that mixes got something that the call itself had mixed."""
    first = next((one.call.x for one in parts if one.sees is not None), None)
    if first is None or call.x is None or first.shape[:2] != call.shape[:2]:
        return False
    return first.requires_grad and mixes(dependence(call.x, first, rows))


def mixes(sees: Array) -> bool:
    """Whether any token depends on another one."""
    return bool((sees & ~np.eye(len(sees), dtype=bool)).any())


def _composed(parts: Sequence[Step], tokens: int) -> Array:
    """Which tokens each token depends on through all of them, one after the other, each with its
    residual."""
    found = np.eye(tokens, dtype=bool)
    for one in parts:
        if one.sees is not None and len(one.sees) == tokens:
            found |= one.sees.astype(np.float32) @ found.astype(np.float32) > 0
    return found


def _gradient(value: torch.Tensor, x: torch.Tensor) -> torch.Tensor | None:
    (gradient,) = torch.autograd.grad(value, x, retain_graph=True, allow_unused=True)
    return gradient
