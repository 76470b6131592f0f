"""Which tokens of which sequences share a value with others although f may differ there.

Output i of f for a sequence of cells depends on the sequence and on i; for causal f on the cells up
to i, and on i; for f that commutes with permutations on the token's own cell and on the cells of
all, whatever their order. That is the *case* of a pair (sequence, i). Pairs of one group have one
value: that of the case with the most pairs in the group, of equally many the last one. All pairs of
other cases are *lost*.
"""

from __future__ import annotations

import numpy as np

from anyseq.verify.verdict import Disagreement


def cases_of(sequences: np.ndarray, cells: int, kind: str) -> np.ndarray:
    """(S, n) whole numbers, equal where every f of the kind is; sequences (S, n) of `cells` cells,
    all different."""
    tokens = sequences.shape[1]
    from_first = cells ** np.arange(tokens)
    if kind == "equivariant":
        return np.asarray((np.sort(sequences, axis=1) @ from_first)[:, None] * cells + sequences)
    if kind not in ("all", "causal"):
        raise Disagreement(f"kind {kind!r} of functions")
    prefix = np.zeros_like(sequences)
    for token in range(tokens):
        prefix[:, token] = prefix[:, token - 1] * cells * (token > 0) + sequences[:, token]
    known = prefix if kind == "causal" else np.broadcast_to(prefix[:, -1:], prefix.shape)
    return np.asarray(known * tokens + np.arange(tokens))


def lost_pairs(groups: np.ndarray, cases: np.ndarray) -> np.ndarray:
    """(S, n) bool, for the group and the case of every pair."""
    both = np.stack([groups.ravel(), cases.ravel()], axis=1)
    found, member, count = np.unique(both, axis=0, return_inverse=True, return_counts=True)
    order = np.lexsort((found[:, 1], count, found[:, 0]))  # in each group the case served is last
    last = np.append(np.diff(found[order, 0]) != 0, True)
    served = np.zeros(len(found), dtype=bool)
    served[order[last]] = True
    return np.asarray(~served[member.ravel()].reshape(groups.shape))
