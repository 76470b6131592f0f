"""Hamiltonian paths without a solver: refutations, all subsets, and patched cycle covers.

Row i of `edges` lists the tokens that may come right before i.
"""

from __future__ import annotations

from time import monotonic
from typing import Any

import numpy as np

from anyseq.graph.bits import members
from anyseq.graph.edges import Array, Edges


def chain(edges: Edges) -> Array | None:
    """(size,) which place each token's strongly connected component has in the chain that a path
    must follow, since it never returns to a component: each has an edge to the next. None if they
    form no chain, so that there is no path; if each is a single token the chain is the path."""
    from scipy.sparse.csgraph import connected_components

    many, part = connected_components(_matrix(edges), connection="strong")
    after, before = part[edges.rows()].astype(np.int64), part[edges.columns].astype(np.int64)
    steps = np.unique((before * many + after)[after != before])
    before, after = np.divmod(steps, many)
    waiting, starts = np.bincount(after, minlength=many), np.searchsorted(before, range(many + 1))
    place = np.empty(many, dtype=np.int64)
    ready = np.flatnonzero(waiting == 0)
    for t in range(many):
        if (
            len(ready) != 1
        ):  # two that nothing comes before, or the last one has no edge to the next
            return None
        one = int(ready[0])
        place[one] = t
        followers = after[starts[one] : starts[one + 1]]
        waiting[followers] -= 1
        ready = followers[waiting[followers] == 0]
    in_chain: Array = place[part]
    return in_chain


def too_few_neighbours(edges: Edges) -> bool:
    """Whether it is impossible that all tokens but one have a predecessor of their own."""
    matrix = _matrix(edges)
    few = _thinned(matrix, np.random.default_rng(0))
    return all(np.count_nonzero(_matching(part) >= 0) < edges.size - 1 for part in (few, matrix))


def exact(edges: Edges) -> Array | None:
    """A path, or None if there is none: for every set of tokens, the tokens that a path through
    exactly these can end with."""
    size = edges.size
    before = [int((1 << edges.row(i).astype(np.int64)).sum()) for i in range(size)]
    ends = np.zeros(1 << size, dtype=np.int64)
    sets = np.arange(1 << size)
    sizes = members(sets[:, None])
    ends[1 << np.arange(size)] = 1 << np.arange(size)
    for many in range(2, size + 1):
        chosen = sets[sizes == many]
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
    from scipy.sparse import csr_array

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
        matrix = csr_array(allowed[np.ix_(shuffled, shuffled)])
        matched = _matching(_thinned(matrix, rng))
        if (matched < 0).any():
            matched = _matching(matrix)
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
    """Join cycles, in place, until there is one; whether that worked."""
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


def _thinned(matrix: Any, rng: np.random.Generator, many: int = 16) -> Any:
    """Some of the edges: matchings of few edges are quicker, and differ more."""
    from scipy.sparse import coo_array, csr_array

    whole = coo_array(matrix)
    kept = rng.random(whole.nnz, dtype=np.float32) < many * matrix.shape[0] / max(1, whole.nnz)
    ends = whole.row[kept], whole.col[kept]
    return csr_array((whole.data[kept], ends), shape=matrix.shape)


def _matching(matrix: Any) -> Array:
    """(size,) a column of its own for as many rows as possible, -1 for the others.

    As a flow from the rows to the columns, by Dinic's algorithm: scipy's own matching takes very
    long on some graphs (windows in random order).
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    size, edges, number = matrix.shape[0], matrix.nnz, np.arange(matrix.shape[0])
    source, sink = 2 * size, 2 * size + 1
    ends = np.concatenate([matrix.indices + size, np.full(size, sink), number])
    starts = np.concatenate([matrix.indptr, edges + 1 + number, [edges + 2 * size] * 2])
    graph = csr_array((np.ones(len(ends), np.int32), ends, starts), shape=(sink + 1, sink + 1))
    row, column = (maximum_flow(graph, source, sink).flow[:size] > 0).nonzero()
    matched = np.full(size, -1)
    matched[row] = column - size
    return matched


def _matrix(edges: Edges) -> Any:
    from scipy.sparse import csr_array

    data = np.ones(edges.count, dtype=bool)
    return csr_array((data, edges.columns, edges.starts), shape=(edges.size, edges.size))
