"""The attention layers of method "yun": ids become contextual ids.

Dense: all selective shifts, then the global shift. Sparse: every selective shift waits for a layer
in which its token attends to the one before it on the route, with idle layers for the other
patterns; then all-max-shift, or the maximum carried in feature w.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from anyseq.construct.contextual import Contextual
from anyseq.construct.contextual.sparse import SparseContextual
from anyseq.construct.gadgets import (
    all_max_shift,
    carry,
    closed,
    global_shift,
    idle,
    rows,
    selective_shifts,
    take_above,
)
from anyseq.nn import FeedForwardLayers, Layers


def dense_shifts(
    context: Contextual, *, step: float, digits: Sequence[int], gap: float, lift: float
) -> list[Layers]:
    """`digits`: what each feature of the network counts in an id; `lift` is added to all ids."""
    return [
        selective_shifts(
            windows=context.windows,
            step=step,
            digits=digits,
            shift=context.selective_shift,
            gap=gap,
        ),
        global_shift(step=step, digits=digits, shift=context.global_shift, gap=gap, lift=lift),
    ]


def sparse_shifts(
    context: SparseContextual, *, step: float, digits: Sequence[int], gap: float, lift: float
) -> list[Layers]:
    """The same through sparse patterns; the first layer is number `context.first`."""
    runs, layer = [], context.first
    if context.tokens > 1:
        shifts = selective_shifts(
            windows=context.windows,
            step=step,
            digits=digits,
            shift=context.selective_shift,
            gap=gap,
        ).attention
        assert shifts is not None
        turns = list(chain.from_iterable(context.turns))
        # stretches of layers without a pause
        starts = [row for row, turn in enumerate(turns) if not row or turn > turns[row - 1] + 1]
        for start, stop in zip(starts, [*starts[1:], len(turns)], strict=True):
            runs += idle(turns[start] - layer, len(digits))
            stretch = rows(shifts, start, stop)
            runs += (
                closed(stretch, _taken(context, step, digits))
                if context.carried and stop == len(turns)
                else [Layers(attention=stretch)]
            )
            layer = turns[stop - 1] + 1
    start, spread = context.spread
    runs += idle(start - layer, len(digits))
    if context.carried:
        return runs + carry(
            layers=spread,
            step=step,
            digits=digits,
            at=context.width,
            shift=context.max_shift,
            gap=gap,
            lift=lift,
        )
    return runs + all_max_shift(
        layers=spread, step=step, digits=digits, shift=context.max_shift, gap=gap, lift=lift
    )


def _taken(context: SparseContextual, step: float, digits: Sequence[int]) -> FeedForwardLayers:
    """The excess of the last token of the route over the threshold goes into feature w."""
    return take_above(threshold=context.threshold * step, digits=digits, at=context.width)
