"""Hamiltonian paths without a solver: refutations, all subsets, and patched cycle covers.

Row i of `edges` lists the tokens that may come right before i.
"""

from __future__ import annotations

from time import monotonic
from typing import Any

import numpy as np

from anyseq.graph.edges import Array, Edges


def refuted(edges: Edges) -> str | None:
    """Why there is no path: "degrees" or "components"; None if neither says so.

    In a path all tokens but the first have a predecessor of their own, so a matching of tokens with
    predecessors has n-1 pairs or more. And a path leaves a strongly connected component for ever:
    the components come in a chain, each with an edge to the next.
    """
    from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

    matrix = _matrix(edges)
    matched = maximum_bipartite_matching(matrix, perm_type="column")
    if np.count_nonzero(matched >= 0) < edges.size - 1:
        return "degrees"
    many, part = connected_components(matrix, connection="strong")
    row, column = part[edges.rows()], part[edges.columns]
    steps = np.unique(np.stack([column, row], 1)[row != column], axis=0)
    followers: list[list[int]] = [[] for _ in range(many)]
    waiting = np.zeros(many, dtype=np.int64)
    for before, after in steps.tolist():
        followers[before].append(after)
        waiting[after] += 1
    # peel off components that nothing comes before: there must always be exactly one
    ready, previous = np.flatnonzero(waiting == 0).tolist(), None
    while ready:
        if len(ready) > 1 or (previous is not None and ready[0] not in followers[previous]):
            return "components"
        previous = ready.pop()
        for after in followers[previous]:
            waiting[after] -= 1
            if waiting[after] == 0:
                ready.append(after)
    return None


def exact(edges: Edges) -> Array | None:
    """A path, or None if there is none: for every set of tokens, the tokens that a path through
    exactly these can end with."""
    size = edges.size
    before = [int((1 << edges.row(i).astype(np.int64)).sum()) for i in range(size)]
    ends = np.zeros(1 << size, dtype=np.int64)
    sets = np.arange(1 << size)
    members = np.bitwise_count(sets)
    ends[1 << np.arange(size)] = 1 << np.arange(size)
    for many in range(2, size + 1):
        chosen = sets[members == many]
        for last in range(size):
            with_last = chosen[(chosen >> last) & 1 == 1]
            possible = (ends[with_last ^ (1 << last)] & before[last]) != 0
            ends[with_last[possible]] |= 1 << last
    left, order = (1 << size) - 1, []
    allowed = int(ends[left])
    while allowed:
        last = allowed.bit_length() - 1
        order.append(last)
        left ^= 1 << last
        allowed = int(ends[left]) & before[last]
    return np.array(order[::-1]) if len(order) == size else None


def patched(edges: Edges, end: float) -> Array | None:
    """A path, or None if none was found in time.

    Every token but one gets a predecessor of its own (a matching, with a vertex that stands for the
    ends): cycles that cover everything. Two cycles a -> b, c -> d become one as a -> d, c -> b
    where these edges exist. Tokens are renumbered at random until all cycles join.
    """
    from scipy.sparse.csgraph import maximum_bipartite_matching

    rng = np.random.default_rng(0)
    size = edges.size + 1  # the last one stands for both ends of the path
    plain = _matrix(edges).toarray() if edges.size <= 8192 else None
    if plain is None:
        return None
    allowed = np.zeros((size, size), dtype=bool)  # row comes right after column
    allowed[:-1, :-1] = plain
    allowed[:-1, -1] = allowed[-1, :-1] = True
    while monotonic() < end:
        shuffled = rng.permutation(size)
        matrix = _thinned(allowed[np.ix_(shuffled, shuffled)], rng)
        matched = maximum_bipartite_matching(matrix, perm_type="column")
        if (matched < 0).any():
            matrix = _sparse(allowed[np.ix_(shuffled, shuffled)])
            matched = maximum_bipartite_matching(matrix, perm_type="column")
            if (matched < 0).any():
                return None  # not even cycles cover all
        before = np.empty(size, dtype=np.int64)
        before[shuffled] = shuffled[matched]
        if _join(before, allowed, end):
            order, at = [], int(before[-1])
            while at != size - 1:
                order.append(at)
                at = int(before[at])
            return np.array(order[::-1])
    return None


def _join(before: Array, allowed: Array, end: float) -> bool:
    """Joins cycles, in place, until there is one; whether that worked."""
    while True:
        cycle = _cycles(before)
        smallest = np.bincount(cycle)
        if len(smallest) == 1:
            return True
        for number in np.argsort(smallest):
            joined = False
            for b in np.flatnonzero(cycle == number):
                # b after before[d], and d after before[b], for a d of another cycle
                fits = allowed[b, before] & allowed[:, before[b]] & (cycle != number)
                if fits.any():
                    d = int(np.flatnonzero(fits)[0])
                    before[b], before[d] = before[d], before[b]
                    joined = True
                    break
            if joined:
                break
        if not joined or monotonic() > end:
            return False


def _cycles(before: Array) -> Array:
    """The number of the cycle that each vertex lies on."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    size = len(before)
    matrix = csr_array((np.ones(size, dtype=bool), (np.arange(size), before)), shape=(size, size))
    number: Array = connected_components(matrix, directed=False)[1]
    return number


def _thinned(allowed: Array, rng: np.random.Generator, many: int = 16) -> Any:
    """Some of the edges: matchings of few edges are quicker, and differ more."""
    share = many / max(1.0, allowed.sum(1).mean())
    return _sparse(allowed & (rng.random(allowed.shape, dtype=np.float32) < share))


def _sparse(allowed: Array) -> Any:
    from scipy.sparse import csr_array

    return csr_array(allowed)


def _matrix(edges: Edges) -> Any:
    from scipy.sparse import csr_array

    data = np.ones(edges.count, dtype=bool)
    return csr_array((data, edges.columns, edges.starts), shape=(edges.size, edges.size))
