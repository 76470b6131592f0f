"""From a pattern to the tiles that compute it.

1. A pattern is split where it is a union. Each part is covered apart, without the pairs of the
   parts before it, so that every pair is counted once.
2. Each part says where its pairs lie. Offsets i - j only: bands along the diagonal (`bands`).
   Blocks and documents: squares on the diagonal. Hubs and summaries: a few whole rows and columns.
   Arrays: boxes of queries, each with the box of its keys. Anything else: lists of blocks.
3. These rectangles are cut into tiles, each with what the pattern forbids within it (`cut`).
"""

from __future__ import annotations

from functools import lru_cache, reduce
from itertools import accumulate, product
from operator import and_

import torch

from anyseq.ops.layout.bands import band_count, bands, stretches
from anyseq.ops.layout.block_lists import block_lists, patches, rectangles
from anyseq.ops.layout.cut import cut
from anyseq.ops.layout.tiling import Grain, Layout, Rectangle, Sizes, Sketch
from anyseq.patterns import (
    Blocks,
    Coarse,
    Complement,
    Documents,
    Full,
    Global,
    GridPattern,
    Intersection,
    Pattern,
    ShiftedWindows,
    Summary,
)

_MOST_PARTS = 16  # of a pattern multiplied out; beyond that it is covered by lists of blocks
_DIAGONAL = 16  # the side of tiles of which only the diagonal counts


def cover(pattern: Pattern, sizes: Sizes, grain: Grain) -> Layout:
    """The layout of a pattern that is the same in all heads; remembered if that is worth it."""
    return _remembered(pattern, sizes, grain) if pattern.lasting else _cover(pattern, sizes, grain)


def _cover(pattern: Pattern, sizes: Sizes, grain: Grain) -> Layout:
    parts = _parts(pattern, sizes.span)
    choices = []
    if len(parts) <= _MOST_PARTS:
        # What depends on offsets only goes first: its tiles are alike, and stay so.
        parts.sort(key=lambda part: reduce(and_, part).offsets(sizes.span) is None)
        choices.append(_uncut(parts, sizes, grain))
    offsets = pattern.offsets(sizes.span)
    if not choices or (offsets is not None and band_count(offsets, sizes, grain) <= len(parts)):
        choices.append(_uncut([(pattern,)], sizes, grain))
    raw = min(choices, key=lambda raw: sum(sketch.area for sketch, _ in raw))
    passes = [cut(sketch, rest, sizes, grain) for sketch, rest in raw]
    # The pass with most rows goes first: what it finds needs no merging.
    passes.sort(key=lambda part: (part.rows is not None, -part.rows_in_tiles))
    return Layout(tuple(part for part in passes if part.tiles))


_remembered = lru_cache(maxsize=64)(_cover)

Raw = list[tuple[Sketch, Pattern]]
"""Sketches, each with the pairs that it is to count."""


def _parts(pattern: Pattern, n: int) -> list[tuple[Pattern, ...]]:
    """The pattern, for n tokens, as a union of intersections of simple patterns."""
    if isinstance(pattern, Intersection):
        chosen = product(*(_parts(one, n) for one in pattern.parts))
        return [tuple(simple for part in choice for simple in part) for choice in chosen]
    parts = pattern.parts_at(n)
    if parts == (pattern,):
        return [(pattern,)]
    return [part for one in parts for part in _parts(one, n)]


def _uncut(parts: list[tuple[Pattern, ...]], sizes: Sizes, grain: Grain) -> Raw:
    """Sketches of all parts, each of which counts what the parts before it do not."""
    raw: Raw = []
    before: list[Pattern] = []
    for part in parts:
        raw.extend(_passes(part, [Complement(earlier) for earlier in before], sizes, grain))
        before.append(reduce(and_, part))
    return raw


def _passes(part: tuple[Pattern, ...], others: list[Pattern], sizes: Sizes, grain: Grain) -> Raw:
    """Sketches of all pairs that the patterns of a part and all others have."""
    rest = reduce(and_, [*part, *others])
    for narrow in (rest, reduce(and_, part)):
        offsets = narrow.offsets(sizes.span)
        if offsets is not None:
            return [(one, rest) for one in bands(offsets, sizes, grain)]
    choices = [
        (found, simple) for simple in part if (found := _around(simple, sizes, grain)) is not None
    ]
    if not choices:
        return [(one, rest) for one in block_lists(rest, sizes)]
    found, simple = min(choices, key=lambda choice: sum(one.area for one in choice[0]))
    if isinstance(simple, Blocks | Documents | ShiftedWindows):  # whose squares hold nothing else
        rest = reduce(and_, [one for one in (*part, *others) if one is not simple], Full())
    return [(one, rest) for one in found]


def _around(simple: Pattern, sizes: Sizes, grain: Grain) -> list[Sketch] | None:
    """Sketches of all pairs of a simple pattern, if its shape is known."""
    offsets = simple.offsets(sizes.span)
    if offsets is not None:
        return bands(offsets, sizes, grain)
    match simple:
        case Blocks(size):
            squares = (_square(first, size) for first in range(0, sizes.span, size))
            return [stretches(squares, sizes)]
        case Documents(lengths):
            ends = zip(accumulate(lengths), lengths, strict=True)
            squares = (_square(end - length, length) for end, length in ends)
            return [stretches(squares, sizes)]
        case Global():
            return _crosses(simple.hubs(sizes.span), sizes)
        case Summary():
            last = simple.lasts(sizes.span)
            columns = last[: sizes.keys].nonzero()[:, 0]
            return [*rectangles(None, columns, sizes), _diagonal(~last, sizes)]
        case GridPattern():
            return patches(simple.patches(), sizes)
        case Coarse():
            return _around_blocks(simple, sizes)
    return None


def _around_blocks(coarse: Coarse, sizes: Sizes) -> list[Sketch] | None:
    """The same for a pattern among blocks of tokens."""
    size, count = coarse.block, coarse.count(sizes.span)
    offsets = coarse.pattern.offsets(count)
    if offsets is not None:
        allowed = offsets.nonzero()[:, 0] - (count - 1)
        if len(allowed) == 0:
            return []
        low, high = int(allowed[0]), int(allowed[-1])
        if len(allowed) == high - low + 1:
            spans = (
                (size * i, size * (i + 1), size * (i - high), size * (i - low + 1))
                for i in range(count)
            )
            return [stretches(spans, sizes)]
    match coarse.pattern:
        case Blocks(inner):
            side = size * inner
            return [
                stretches((_square(first, side) for first in range(0, sizes.span, side)), sizes)
            ]
        case Global():
            hub = coarse.pattern.hubs(count).repeat_interleave(size)
            return _crosses(hub[: sizes.span], sizes)
    return None


def _square(first: int, side: int) -> tuple[int, int, int, int]:
    return first, first + side, first, first + side


def _crosses(hub: torch.Tensor, sizes: Sizes) -> list[Sketch]:
    """All other tokens with the hubs, and the hubs with all."""
    rows = hub[sizes.q_offset : sizes.q_offset + sizes.queries]
    columns = hub[: sizes.keys].nonzero()[:, 0]
    return [
        *rectangles((~rows).nonzero()[:, 0], columns, sizes),
        *rectangles(rows.nonzero()[:, 0], None, sizes),
    ]


def _diagonal(chosen: torch.Tensor, sizes: Sizes) -> Sketch:
    """The chosen positions (span,), each with itself."""
    common = chosen[sizes.q_offset : min(sizes.q_offset + sizes.queries, sizes.keys)]
    places = common.nonzero()[:, 0]
    count, side = len(places), _DIAGONAL
    found = []
    for first in range(0, count, side):
        size = min(side, count - first)
        found.append(Rectangle(first, size, first, size))
    return Sketch(found, places, places + sizes.q_offset)
