"""Tables with one row for every multiset of n cells out of M, read without the code that made them.

A multiset is an ascending sequence; rows are in the order of their last elements, those with equal
last elements in the order of the others. So the row of (a_1, ..., a_n) is how many come before it,
Σ_r C(a_r + r - 1, r): below its last element, with it and below the last but one, and so on.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from anyseq.construct.verifiers.claim import Claim
from anyseq.construct.verifiers.verify_terms import Disagreement, allowed_change, largest_of

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


def with_repeats(claim: Claim, values: np.ndarray) -> np.ndarray:
    """A row for every multiset, NaN for those with a cell twice, from one for each of the others in
    the order of their first elements, then of their second ones, and so on."""
    rows = all_multisets(claim.steps**claim.features, claim.tokens)
    (distinct,) = np.nonzero((np.diff(rows, axis=1) > 0).all(1))
    out = np.full((len(rows), *values.shape[1:]), np.nan)
    out[distinct[np.lexsort(rows[distinct].T[::-1])]] = values
    return out


def values_fit_lipschitz(claim: Claim, values: np.ndarray) -> None:
    """Outputs at centres δ apart must not contradict the constants: all entries moved, or one, or
    all and one the other way, or any of four at most, either way."""
    cells, axes = claim.steps**claim.features, claim.tokens * claim.features
    rows = all_multisets(cells, claim.tokens)
    rows = rows[:: -(-len(rows) // _ROWS)]
    places = np.array([claim.steps**feature for feature in range(claim.features)])
    entries = (rows[:, :, None] // places % claim.steps).reshape(len(rows), axes)
    here = outputs_at(values, rows, cells)
    noise, one = 1e-9 * largest_of(values), np.eye(axes, dtype=int)
    some = [*one, np.ones(axes, dtype=int), *(1 - 2 * one)]
    for step in some if axes > 4 else map(np.array, product((-1, 0, 1), repeat=axes)):
        moves = np.nonzero(step.reshape(claim.tokens, -1).any(0))[0].tolist()
        allowed = allowed_change(claim, 1 / claim.steps, moves) + noise
        inside = ((entries + step >= 0) & (entries + step < claim.steps)).all(1)
        moved = (entries[inside] + step).reshape(-1, claim.tokens, claim.features) @ places
        apart = largest_of(outputs_at(values, moved, cells) - here[inside])
        if apart > allowed:
            raise Disagreement(
                f"values at neighbouring centres differ by {apart:.6g}; the constants allow "
                f"{allowed:.6g}"
            )
