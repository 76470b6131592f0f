"""From a pattern to the tiles that compute it.

1. A pattern is split where it is a union. Each part is covered apart, without the pairs of the
   parts before it, so that every pair is counted once.
2. Each part says where its pairs lie. Offsets i - j only: bands along the diagonal (`bands`).
   Blocks and documents: squares on the diagonal. Hubs and summaries: a few whole rows and columns.
   Anything else: lists of blocks.
3. What the pattern forbids within the tiles becomes patches.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from itertools import product
from operator import and_

import torch

from anyseq.ops.tiles.bands import Sizes, bands, squares
from anyseq.ops.tiles.block_lists import block_lists, rectangle
from anyseq.ops.tiles.layout import Layout, Pass, Run, joined
from anyseq.ops.tiles.patches import patched
from anyseq.patterns import (
    Blocks,
    Complement,
    Composite,
    Documents,
    Global,
    Intersection,
    Pattern,
    Summary,
    Union,
)

_MOST_PARTS = 16  # of a pattern multiplied out; beyond that it is covered by lists of blocks
_DIAGONAL = 16  # the side of tiles of which only the diagonal counts


@lru_cache(maxsize=64)
def cover(pattern: Pattern, sizes: Sizes) -> Layout:
    """The layout of a pattern that is the same in all heads."""
    parts = _parts(pattern)
    if not 1 < len(parts) <= _MOST_PARTS:
        return _covered([(pattern,)], sizes)
    # What depends on offsets only goes first: its tiles are alike, and stay so.
    parts.sort(key=lambda part: reduce(and_, part).offsets(sizes.span) is None)
    apart = _covered(parts, sizes)
    if pattern.offsets(sizes.span) is None:
        return apart
    return min(apart, _covered([(pattern,)], sizes), key=lambda layout: layout.area)


def _parts(pattern: Pattern) -> list[tuple[Pattern, ...]]:
    """The pattern as a union of intersections of simple patterns."""
    match pattern:
        case Union(parts):
            return [part for one in parts for part in _parts(one)]
        case Composite():
            return [part for one in pattern.split() for part in _parts(one)]
        case Intersection(parts):
            chosen = product(*(_parts(one) for one in parts))
            return [tuple(simple for part in choice for simple in part) for choice in chosen]
        case _:
            return [(pattern,)]


def _covered(parts: list[tuple[Pattern, ...]], sizes: Sizes) -> Layout:
    passes: list[Pass] = []
    before: list[Pattern] = []
    for part in parts:
        rest = reduce(and_, [*part, *(Complement(earlier) for earlier in before)])
        finished = (patched(raw, rest, sizes).chunked() for raw in _passes(part, rest, sizes))
        passes.extend(one for one in finished if one.runs)
        before.append(reduce(and_, part))
    return Layout(tuple(passes), sizes.queries, sizes.keys)


def _passes(part: tuple[Pattern, ...], rest: Pattern, sizes: Sizes) -> list[Pass]:
    """Passes over all pairs of `rest`, which are pairs of every pattern in `part`."""
    for narrow in (rest, reduce(and_, part)):
        offsets = narrow.offsets(sizes.span)
        if offsets is not None:
            return bands(offsets, sizes)
    choices = [passes for simple in part if (passes := _around(simple, sizes)) is not None]
    if not choices:
        return block_lists(rest, sizes)
    return min(choices, key=lambda passes: sum(one.area for one in passes))


def _around(simple: Pattern, sizes: Sizes) -> list[Pass] | None:
    """Passes over all pairs of a simple pattern, if its shape is known."""
    offsets = simple.offsets(sizes.span)
    if offsets is not None:
        return bands(offsets, sizes)
    match simple:
        case Blocks(size):
            full, rest = divmod(sizes.span, size)
            return [squares([size] * full + [rest] * (rest > 0), sizes)]
        case Documents(lengths):
            return [squares(lengths, sizes)]
        case Global():
            return _crosses(simple.hubs(sizes.span), sizes)
        case Summary():
            last = simple.lasts(sizes.span)
            columns = last[: sizes.keys].nonzero()[:, 0]
            return [rectangle(None, columns, sizes), _diagonal(~last, sizes)]
    return None


def _crosses(hub: torch.Tensor, sizes: Sizes) -> list[Pass]:
    """Everybody else with the hubs, and the hubs with all."""
    rows = hub[sizes.q_offset : sizes.q_offset + sizes.queries]
    columns = hub[: sizes.keys].nonzero()[:, 0]
    return [
        rectangle((~rows).nonzero()[:, 0], columns, sizes),
        rectangle(rows.nonzero()[:, 0], None, sizes),
    ]


def _diagonal(chosen: torch.Tensor, sizes: Sizes) -> Pass:
    """The chosen positions (span,), each with itself."""
    common = chosen[sizes.q_offset : min(sizes.q_offset + sizes.queries, sizes.keys)]
    places = common.nonzero()[:, 0]
    count, side = len(places), _DIAGONAL
    tiles = (
        Run(first, first, min(side, count - first), min(side, count - first), alike=False)
        for first in range(0, count, side)
    )
    return Pass(joined((tile, 0) for tile in tiles), places, places + sizes.q_offset)
