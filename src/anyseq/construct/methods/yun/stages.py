"""The stages of a network of method "yun", layer by layer."""

from __future__ import annotations

import math

from anyseq.construct.contextual import Contextual
from anyseq.construct.contextual.sparse import SparseContextual
from anyseq.construct.gadgets import clip_layers, erase_layers
from anyseq.construct.methods.yun.sizes import YunSizes
from anyseq.construct.methods.yun.windows import Windows
from anyseq.construct.network.stages import ID, Reading, Stage, filled_up


def stages(recipe: YunSizes) -> tuple[Stage, ...]:
    """Ids are read in the unit of x throughout, without the lift, and as they were before they are
    rescaled."""
    ask, context, windows = recipe.ask, recipe.context, recipe.windows
    lift = windows.lift * recipe.step
    entries = Reading("entries", 0, ask.features)
    outputs = Reading("T", 0, ask.out_features)

    def ids(scale: float, lift: float) -> Reading:
        return Reading(ID, 0, recipe.width, tuple(u / scale for u in recipe.digits), -lift)

    swept, shifted = ids(1.0, 0.0), ids(1.0, lift)
    made = []
    if recipe.gain:
        does = "The gain on a constant feature gives every token its position, which is added."
        made.append(Stage("positions", recipe.gain.size.layers, does, entries))
    if not recipe.positions:
        made += [
            Stage(
                "bound",
                clip_layers(ask.features),
                "Entries far outside [0, 1] are moved close to it.",
                entries,
            ),
            Stage("banish", ask.features, "Entries outside [0, 1) are moved far below 0.", entries),
        ]
    made.append(
        Stage(
            "quantise",
            ask.features * recipe.quantised_cells,
            "One layer per cell: an entry in it is rounded down to its lower end."
            + f" {_carries(context.offsets)}" * recipe.positions,
            entries,
        )
    )
    made += (
        _sparse(context, windows, swept, shifted)
        if isinstance(context, SparseContextual)
        else _dense(context, windows, swept, shifted)
    )
    if not recipe.positions:
        does = "Sequences with two tokens in one cell, or a banished one, become 0."
        made.append(Stage("erase", erase_layers(recipe.width), does, shifted))
    made += [
        Stage(
            "rescale",
            1,
            "Ids stay as they are: small enough for the value map."
            if windows.scale == 1.0
            else f"Ids are stored as 2^{round(math.log2(windows.scale))} of themselves, so that "
            "the value map rounds less; they are shown as before.",
            ids(windows.scale, lift),
        ),
        Stage(
            "value map",
            recipe.cells * ask.design.tokens,
            "One layer per id: the token with that id becomes its value.",
            outputs,
        ),
        Stage(
            "clip",
            clip_layers(ask.out_features),
            "Outputs outside the range of f are moved back into it.",
            outputs,
        ),
    ]
    return filled_up(made, recipe.shape.layers, outputs)


def _carries(offsets: tuple[int, ...]) -> str:
    if offsets == tuple(range(len(offsets))):
        return "The position of token j adds j."
    return f"Positions add {', '.join(map(str, offsets))} to the tokens."


def _lifted(windows: Windows) -> str:
    """A constant is added to all ids; what is shown is without it."""
    return f" (All grow by {windows.lift * windows.step:,g} more, not shown.)" * bool(windows.lift)


def _dense(context: Contextual, windows: Windows, swept: Reading, shifted: Reading) -> list[Stage]:
    return [
        Stage(
            "selective shifts",
            len(context.windows),
            f"One layer per possible id, upward: a token with that id moves by "
            f"{context.selective_shift:,} (max - min).",
            swept,
        ),
        Stage(
            "global shift",
            1,
            f"Every id grows by {context.global_shift:,} max: now it identifies the token and its "
            f"whole sequence.{_lifted(windows)}",
            shifted,
        ),
    ]


def _sparse(
    context: SparseContextual, windows: Windows, swept: Reading, shifted: Reading
) -> list[Stage]:
    """The look-up does not have the route, so these stages are described from the layers alone."""
    start, layers = context.spread
    made = []
    if start > context.first:
        made.append(
            Stage(
                "shifts along the route",
                start - context.first,
                "One layer per possible id, upward, in which its token attends to the one before "
                f"it on the route: a token with that id moves by {context.selective_shift:,} "
                "(max - min), over those it attends to. Other layers are idle.",
                swept,
            )
        )
    does = (
        "The largest id travels from token to token in a feature of its own; at the end every id "
        f"grows by {context.max_shift:,} times what it is above {context.threshold:,}"
        if context.carried
        else f"In every layer an id grows by {context.max_shift:,} max, over those it attends to"
    )
    named = f": now it identifies the token and its whole sequence.{_lifted(windows)}"
    made.append(
        Stage("carried maximum" if context.carried else "max shifts", layers, does + named, shifted)
    )
    return made
