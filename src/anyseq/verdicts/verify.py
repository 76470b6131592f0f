"""An independent checker of certificates: plain code over patterns, sharing nothing with the
rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from anyseq.patterns import Pattern

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_CHUNK = 1024
_PLACES = 64  # where a distance is looked up


def sees_all(pattern: Pattern, tokens: int, bos: bool) -> bool:
    """Whether in some head every token attends to every token."""
    size = tokens + bos
    return any(
        all(bool(_rows(part, size, first).all()) for first in range(0, size, _CHUNK))
        for part in pattern.heads()
    )


def follows(patterns: Sequence[Pattern], tokens: int, bos: bool, order: np.ndarray) -> bool:
    """Whether the order contains all tokens, each attends to the one before it in some pattern, and
    every position attends to itself in all of them."""
    if sorted(order.tolist()) != list(range(tokens)):
        return False
    size, zero = tokens + bos, torch.zeros((), dtype=torch.int64)
    places, index = torch.from_numpy(order).long() + bos, torch.arange(size)
    mods = [part.at(size) for pattern in patterns for part in pattern.heads()]
    if not all(bool(mod(zero, zero, index, index).all()) for mod in mods):
        return False
    seen = torch.zeros(tokens - 1, dtype=torch.bool)
    for mod in mods:
        seen |= mod(zero, zero, places[1:], places[:-1])
    return bool(seen.all())


def all_meet(
    patterns: Sequence[Pattern],
    tokens: int,
    bos: bool,
    *,
    causal: bool,
    layers: int,
    phase: int,
    hub: int | None,
    by_offsets: bool,
) -> bool:
    """Whether every token (every earlier one, if causal) reaches every token within `layers`."""
    size = tokens + bos
    cycle = [patterns[(phase + layer) % len(patterns)] for layer in range(layers)]
    if tokens == 1:
        return True
    if hub is not None and 0 <= hub < size and _through_hub(cycle, size, bos, hub):
        return True
    if by_offsets and _by_offsets(cycle, size, tokens, causal):
        return True
    return _by_sets(cycle, size, bos, causal)


def reaches_one(
    patterns: Sequence[Pattern], tokens: int, bos: bool, *, place: int, causal: bool, layers: int
) -> bool:
    """Whether all tokens (all earlier ones, if causal) reach one token within `layers`, followed
    backward; the caller gives Blocks(1) for patterns that do not count."""
    size = tokens + bos
    cycle = [patterns[layer % len(patterns)] for layer in range(layers)]
    seen = {pattern: _matrix(pattern, size) for pattern in set(cycle)}
    held = np.zeros(size, dtype=np.float32)
    held[place + bos] = 1.0
    for pattern in reversed(cycle):
        held = np.minimum(held + held @ seen[pattern], 1.0)
    return bool(held[bos : bos + place + 1 if causal else None].all())


def _through_hub(cycle: Sequence[Pattern], size: int, bos: bool, hub: int) -> bool:
    """One layer in which the hub attends to all tokens, and a later one in which all attend to the
    hub."""
    index = torch.arange(size)
    zero, here = torch.zeros((), dtype=torch.int64), torch.tensor(hub)
    heard = False
    for pattern in cycle:
        parts = [part.at(size) for part in pattern.heads()]
        known = (index == hub) | (index < bos)
        column = torch.stack([mod(zero, zero, index, here).expand(size) for mod in parts]).any(0)
        if heard and bool((column | known).all()):
            return True
        row = torch.stack([mod(zero, zero, here, index).expand(size) for mod in parts]).any(0)
        heard = heard or bool((row | known).all())
    return False


def _by_offsets(cycle: Sequence[Pattern], size: int, tokens: int, causal: bool) -> bool:
    """Sums of steps, one a layer: steps in one direction never leave the sequence; or, if all
    patterns close into a ring, steps around it."""
    known = {one: (_steps(one, size, 1), _steps(one, size, -1)) for one in set(cycle)}
    steps = [known[pattern] for pattern in cycle]
    if all(np.array_equal(up[up > 0], np.sort(size - down[down > 0])) for up, down in steps):
        return bool(_summed([up for up, _ in steps], size, ring=True).all())
    upward = _summed([up for up, _ in steps], size, ring=False)[:tokens].all()
    downward = causal or _summed([down for _, down in steps], size, ring=False)[:tokens].all()
    return bool(upward and downward)


def _summed(steps: Sequence[np.ndarray], size: int, ring: bool) -> np.ndarray:
    """(size,) bool: the distances that a step of each layer, or waiting, adds up to."""
    met = np.zeros(size, dtype=bool)
    met[0] = True
    for some in steps:
        before, met = met, met.copy()
        if len(some) > np.count_nonzero(before):  # the shorter of both is looped over
            swapped = np.zeros(size, dtype=bool)
            swapped[some] = True
            before, some = swapped, np.flatnonzero(before)
        for step in some:
            met[step:] |= before[: size - step]
            if ring:
                met[:step] |= before[size - step :]
            if met.all():
                return met
    return met


def _steps(pattern: Pattern, size: int, direction: int) -> np.ndarray:
    """Distances in that direction that are allowed at 64 places, the first and the last that there
    are among them, looked up pair by pair: at all places, in a sequence no longer than that."""
    zero = torch.zeros((), dtype=torch.int64)
    distance = torch.arange(size)
    found = torch.zeros(size, dtype=torch.bool)
    for part in pattern.heads():
        mod = part.at(size)
        allowed = torch.ones(size, dtype=torch.bool)
        for share in np.linspace(0.0, 1.0, min(size, _PLACES)):
            low = ((size - 1 - distance) * float(share)).round().long()
            i, j = (low + distance, low) if direction > 0 else (low, low + distance)
            allowed &= mod(zero, zero, i, j)
        found |= allowed
    return np.flatnonzero(found.numpy())


def _by_sets(cycle: Sequence[Pattern], size: int, bos: bool, causal: bool) -> bool:
    """Follow every chunk of targets backward through the layers, as sparse matrices."""
    from scipy.sparse import csr_array

    seen = {pattern: _matrix(pattern, size) for pattern in set(cycle)}
    keys = np.arange(size)
    for first in range(bos, size, _CHUNK):
        rows = np.arange(first, min(first + _CHUNK, size))
        met = csr_array(
            (np.ones(len(rows), dtype=np.float32), (np.arange(len(rows)), rows)),
            shape=(len(rows), size),
        )
        for pattern in reversed(cycle):
            met = met + met @ seen[pattern]
            met.data[:] = 1.0
        whole = met.toarray() > 0
        wanted = keys[None, :] >= bos
        if causal:
            wanted = wanted & (keys[None, :] <= rows[:, None])
        if not whole[np.broadcast_to(wanted, whole.shape)].all():
            return False
    return True


def _matrix(pattern: Pattern, size: int) -> csr_array:
    from scipy.sparse import csr_array

    parts = [
        (_rows(pattern, size, first).nonzero() + torch.tensor([first, 0])).numpy()
        for first in range(0, size, _CHUNK)
    ]
    row, column = np.concatenate(parts).T
    return csr_array((np.ones(len(row), dtype=np.float32), (row, column)), shape=(size, size))


def _rows(pattern: Pattern, size: int, first: int) -> torch.Tensor:
    """(rows, size) bool: which tokens some tokens attend to, in any head."""
    zero = torch.zeros((), dtype=torch.int64)
    i = torch.arange(first, min(first + _CHUNK, size))[:, None]
    j = torch.arange(size)[None, :]
    masks = [part.at(size)(zero, zero, i, j).expand(len(i), size) for part in pattern.heads()]
    return torch.stack(masks).any(0)
