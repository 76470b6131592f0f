"""Tables with one row for every multiset of n cells out of M, read without the code that made them.

A multiset is an ascending sequence; rows are in the order of their last elements, those with equal
last elements in the order of the others. So the row of (a_1, ..., a_n) is how many come before it,
Σ_r C(a_r + r - 1, r): below its last element, with it and below the last but one, and so on.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from anyseq.verify.constants import change_fits
from anyseq.verify.facts import Facts
from anyseq.verify.terms import largest_of

_ROWS = 2**18  # of a table whose values are compared with their neighbours


def all_multisets(cells: int, size: int) -> np.ndarray:
    """(rows, size), in the order of the table."""
    rows = np.arange(cells)[:, None]
    for _ in range(size - 1):
        until = np.searchsorted(rows[:, -1], np.arange(cells), side="right")
        rows = np.concatenate(
            [np.pad(rows[:end], [(0, 0), (0, 1)], constant_values=top)
             for top, end in enumerate(until.tolist())]
        )  # fmt: skip
    return rows


def outputs_at(values: np.ndarray, cells: np.ndarray, count: int) -> np.ndarray:
    """Tokens in these cells (inputs, n), out of `count`: their outputs (inputs, n, out)."""
    before = [np.arange(count)]
    for _ in range(cells.shape[1] - 1):
        before.append(before[-1].cumsum())
    order = np.argsort(cells, axis=1, kind="stable")
    ascending = np.take_along_axis(cells, order, axis=1)
    rows = sum(known[ascending[:, place]] for place, known in enumerate(before))
    out = np.empty((len(cells), *values.shape[1:]))
    np.put_along_axis(out, order[:, :, None], values[rows], axis=1)
    return out


def with_repeats(rows: np.ndarray, values: np.ndarray, other: float) -> np.ndarray:
    """A row for every multiset, `other` for those with a cell twice, from one for each set, in the
    order of their first elements, then of their second ones, and so on."""
    (distinct,) = np.nonzero((np.diff(rows, axis=1) > 0).all(1))
    out = np.full((len(rows), *values.shape[1:]), other)
    out[distinct[np.lexsort(rows[distinct].T[::-1])]] = values
    return out


def multisets_fit(facts: Facts, values: np.ndarray) -> None:
    """Outputs at centres δ apart must not contradict the constants: all entries moved, or one, or
    all and one the other way, or any of four at most, either way."""
    axes, steps = facts.axes, facts.steps
    rows = all_multisets(facts.cells, facts.tokens)
    rows = rows[:: -(-len(rows) // _ROWS)]
    places = np.array([steps**feature for feature in range(facts.features)])
    entries = (rows[:, :, None] // places % steps).reshape(len(rows), axes)
    here = outputs_at(values, rows, facts.cells)
    noise, one = 1e-9 * largest_of(values), np.eye(axes, dtype=int)
    some = [*one, np.ones(axes, dtype=int), *(1 - 2 * one)]
    for step in some if axes > 4 else map(np.array, product((-1, 0, 1), repeat=axes)):
        moves = np.nonzero(step.reshape(facts.tokens, -1).any(0))[0].tolist()
        inside = ((entries + step >= 0) & (entries + step < steps)).all(1)
        moved = (entries[inside] + step).reshape(-1, facts.tokens, facts.features) @ places
        apart = largest_of(outputs_at(values, moved, facts.cells) - here[inside])
        change_fits(facts, apart, 1 / steps, moves, noise)
