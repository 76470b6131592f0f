"""Whether every token reaches every token, and after how many layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from anyseq.base import check_time
from anyseq.design import Design
from anyseq.errors import InvalidArgument
from anyseq.graph.edges import Array, Edges, edges_of, seen_by_any_head, vertices
from anyseq.graph.spread import spread
from anyseq.graph.toeplitz import Crossing, cross
from anyseq.graph.wanted import Wanted, grown
from anyseq.patterns import Pattern

_LISTED = 8  # pairs named as the last ones
_MOST_TOKENS = 131_072  # for which sets of tokens, a bit per pair, fit a few gigabytes
PICTURE_TOKENS, ANIMATION_TOKENS = 2048, 256
"""At most so many are drawn, in a picture and in every frame of an animation."""


@dataclass(frozen=True, eq=False)
class Reach:
    """How the content of a token reaches the other tokens, residual included.

    With S_k = {k} before the first layer, layer t makes S_k ∪ ∪_{j in A_k} S_j of it, where A is
    the pattern of layer t, in any head. Token j has reached k when j is in S_k. Tokens are counted
    without BOS; routes may pass through it.

    target: "all": every token must reach every token; "causal": j must reach k only for j <= k.
    layers: the least number of layers, counted from the start of the cycle, after which all these
        pairs are reached; None if they never are.
    unreached: (k, j) such that token j never reaches token k.
    last: up to 8 pairs (k, j) that are reached in the last of these layers and not before.
    reached: the number of wanted pairs reached after 0, 1, ... layers, up to the last one that
        adds to it; None where counting would cost too much.
    connections: the edges of each pattern of the cycle, those of BOS included.
    proof: "offsets" (sums of offsets), "hub" (a vertex that attends to all in one layer, and all to
        it in the next) or "sets" (the sets S_k themselves).
    hub: the number of that vertex in the graph, where BOS counts.
    """

    tokens: int
    target: str
    layers: int | None
    unreached: tuple[int, int] | None
    last: tuple[tuple[int, int], ...]
    reached: tuple[int, ...] | None
    connections: tuple[int, ...]
    proof: str
    hub: int | None
    design: Design = field(repr=False)
    _after: dict[int, int | None] = field(default_factory=dict, repr=False)

    def layers_after(self, phase: int) -> int | None:
        """The least number of layers, counted from another phase of the cycle."""
        if phase == 0:
            return self.layers
        if phase not in self._after:
            self._after[phase] = reach(self.design.turned(phase), self.target).layers
        return self._after[phase]

    @property
    def sparsity(self) -> float:
        """The share of pairs without a connection, on average over the cycle."""
        return 1.0 - sum(self.connections) / len(self.connections) / vertices(self.design) ** 2

    @property
    def holds(self) -> bool:
        """Whether all wanted pairs are reached."""
        return self.layers is not None

    def layers_per_pair(self) -> Array:
        """(tokens, tokens) int16: the layers that token j (column) needs to reach token k (row),
        counted from the start of the cycle; -1 if it never does."""
        if self.tokens > PICTURE_TOKENS:
            raise InvalidArgument(
                f"tokens={self.tokens}: layers per pair are listed for up to {PICTURE_TOKENS}"
            )
        state = spread(_cycle(self.design), Wanted.of(self.design, self.target))
        layers = np.full((vertices(self.design),) * 2, -1, dtype=np.int16)
        layer = still = 0
        while still < len(self.design.cycle):
            check_time()
            layers[state.matrix() & (layers < 0)] = layer
            still = 0 if state.advance() else still + 1
            layer += 1
        first = int(self.design.bos)
        return layers[first:, first:]


def reach(design: Design, target: str = "all") -> Reach:
    """Which tokens reach which, and how soon."""
    wanted = Wanted.of(design, target)
    return _by_offsets(design, wanted) or _by_edges(design, wanted)


def connections_of(design: Design) -> tuple[int, ...]:
    """How many pairs are connected in each pattern of the cycle, in any head, BOS included."""
    counts = {}
    for pattern in set(design.cycle):
        offsets = seen_by_any_head(pattern).offsets(design.size)
        if offsets is None:
            counts[pattern] = edges_of(pattern, design.size).count
        else:
            lengths = design.size - np.abs(np.arange(1 - design.size, design.size))
            counts[pattern] = int(lengths[offsets.numpy()].sum())
    return tuple(counts[pattern] for pattern in design.cycle)


def _by_offsets(design: Design, wanted: Wanted) -> Reach | None:
    found = _crossed(design.cycle, wanted)
    if found is None:
        return None
    return Reach(
        tokens=design.tokens,
        target=wanted.target,
        layers=found.layers,
        unreached=found.unreached,
        last=found.last,
        reached=found.reached,
        connections=connections_of(design),
        proof="offsets",
        hub=None,
        design=design,
    )


@lru_cache(maxsize=32)  # designs that differ in other ways are asked about one after another
def _crossed(patterns: tuple[Pattern, ...], wanted: Wanted) -> Crossing | None:
    cycle = []
    for pattern in patterns:
        offsets = seen_by_any_head(pattern).offsets(wanted.size)
        if offsets is None:
            return None
        cycle.append(offsets.numpy())
    return cross(cycle, wanted, _LISTED)


def _by_edges(design: Design, wanted: Wanted) -> Reach:
    cycle = _cycle(design)
    hub = _hub(cycle[0], cycle[1 % len(cycle)], wanted)
    first = _run(cycle, wanted, hub is not None)
    return Reach(
        tokens=design.tokens,
        target=wanted.target,
        layers=first.layers,
        unreached=first.open[0] if first.layers is None else None,
        last=first.open if first.layers else (),
        reached=first.counts,
        connections=tuple(edges.count for edges in cycle),
        proof="sets" if hub is None else "hub",
        hub=hub,
        design=design,
    )


@dataclass(frozen=True)
class _Run:
    """open: the first pairs that were missing before the last layer; or are, if layers is None."""

    layers: int | None
    open: tuple[tuple[int, int], ...]
    counts: tuple[int, ...]


def _run(cycle: Sequence[Edges], wanted: Wanted, hub: bool) -> _Run:
    if hub:
        return _run_hub(cycle[0], wanted)
    if wanted.tokens > _MOST_TOKENS:
        raise InvalidArgument(
            f"tokens={wanted.tokens}: neither offsets nor a hub decide this design, and sets of "
            f"tokens are followed for up to {_MOST_TOKENS:,}"
        )
    state = spread(cycle, wanted)
    missing, counts = state.missing(_LISTED), [state.count()]
    before: list[tuple[int, int]] = []
    layers = still = 0
    while missing and still < len(cycle):
        check_time()
        still = 0 if state.advance() else still + 1
        layers += 1
        before, missing = missing, state.missing(_LISTED)
        counts.append(state.count())
    if missing:
        return _Run(None, tuple(missing), grown(counts))
    return _Run(layers, tuple(before), grown(counts))


def _run_hub(edges: Edges, wanted: Wanted) -> _Run:
    """With a hub two layers are enough; one is if and only if the first pattern, with every token
    itself, has all wanted pairs."""
    rows, columns = edges.rows(), edges.columns
    real = (rows >= wanted.bos) & (columns >= wanted.bos) & (rows != columns)
    if wanted.target == "causal":
        real &= columns < rows
    counts = [wanted.tokens, wanted.tokens + int(np.count_nonzero(real)), wanted.pairs]
    layers = next(layer for layer, count in enumerate(counts) if count == wanted.pairs)
    missing: list[tuple[int, int]] = []
    everybody = np.arange(wanted.bos, wanted.size)
    for k in everybody.tolist():
        if layers == 0 or len(missing) == _LISTED:
            break
        seen = np.append(edges.row(k), k) if layers == 2 else np.array([k])
        asked = everybody if wanted.target == "all" else everybody[: k + 1 - wanted.bos]
        open_ = np.setdiff1d(asked, seen)[: _LISTED - len(missing)]
        missing += wanted.token_pairs(np.full(len(open_), k), open_)
    return _Run(layers, tuple(missing), grown(counts))


def _hub(first: Edges, second: Edges, wanted: Wanted) -> int | None:
    """A vertex that attends to every token in the first pattern and that every token attends to in
    the second; a token holds its own content anyway."""
    near = wanted.tokens - 1
    popular = np.bincount(second.columns, minlength=wanted.size) >= near
    spare = [0] if wanted.bos else []
    for hub in np.flatnonzero((first.degrees >= near) & popular).tolist():
        seen, seers = first.row(hub), second.rows()[second.columns == hub]
        sides = (np.union1d(side, [*spare, hub]) for side in (seen, seers))
        if all(len(side) == wanted.size for side in sides):
            return hub
    return None


def _cycle(design: Design) -> list[Edges]:
    """The edges of each pattern of the cycle; of equal ones, those of the first."""
    known = {pattern: edges_of(pattern, vertices(design)) for pattern in set(design.cycle)}
    return [known[pattern] for pattern in design.cycle]
