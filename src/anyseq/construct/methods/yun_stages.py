"""Which layers of a network of method "yun" do what."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anyseq.construct.contextual import Contextual
from anyseq.construct.contextual_sparse import SparseContextual
from anyseq.construct.gadgets import clip_layers, erase_layers
from anyseq.construct.stages import Reading, Stage, filled_up

if TYPE_CHECKING:
    from anyseq.construct.methods.yun import YunRecipe


def stages(recipe: YunRecipe) -> tuple[Stage, ...]:
    """Ids are read in units of δ and without the lift, until they are rescaled."""
    ask, context, windows = recipe.ask, recipe.context, recipe.windows
    entries = Reading("entries", 0, ask.features)
    outputs = Reading("T", 0, ask.out_features)

    def ids(unit: float, lift: int) -> Reading:
        return Reading("id", 0, recipe.width, tuple(u / unit for u in recipe.digits), -lift)

    swept, shifted = ids(recipe.step, 0), ids(recipe.step, windows.lift)
    made = []
    if recipe.gain:
        does = "The gain of a constant feature makes every token's position, which is added."
        made.append(Stage("positions", recipe.gain.size.layers, does, entries))
    if not recipe.positions:
        made += [
            Stage("bound", clip_layers(ask.features), "Entries far outside come near.", entries),
            Stage("banish", ask.features, "Entries outside [0, 1) go far below 0.", entries),
        ]
    made.append(
        Stage(
            "quantise",
            ask.features * recipe.quantised_cells,
            "One layer per cell: an entry in it goes to its lower end"
            + (f" ({_carries(context.offsets)})." if recipe.positions else "."),
            entries,
        )
    )
    made += (
        _sparse(context, swept, shifted)
        if isinstance(context, SparseContextual)
        else _dense(context, swept, shifted)
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
            else f"Ids, rounded, are multiplied by 2^{round(math.log2(windows.scale))}, so that "
            "the value map rounds less.",
            ids(1.0, 0),
        ),
        Stage(
            "value map",
            recipe.cells * ask.design.tokens,
            "One layer per id: the token with that id becomes its value.",
            outputs,
        ),
        Stage(
            "clip", clip_layers(ask.out_features), "What missed every value comes back.", outputs
        ),
    ]
    return filled_up(made, recipe.shape.layers, outputs)


def _carries(offsets: tuple[int, ...]) -> str:
    if offsets == tuple(range(len(offsets))):
        return "token j carries + j - 1"
    return f"the tokens carry {', '.join(map(str, offsets))}"


def _dense(context: Contextual, swept: Reading, shifted: Reading) -> list[Stage]:
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
            f"Every id grows by {context.global_shift:,} max: now it names the token and its "
            "whole sequence.",
            shifted,
        ),
    ]


def _sparse(context: SparseContextual, swept: Reading, shifted: Reading) -> list[Stage]:
    """The look-up does not know the route, so these are told by the layers alone."""
    start, layers = context.spread
    made = []
    if start > context.first:
        made.append(
            Stage(
                "shifts along the route",
                start - context.first,
                "One layer per possible id, upward, in which its token sees the one before it on "
                f"the route: a token with that id moves by {context.selective_shift:,} "
                "(max - min), over those it sees. Other layers are idle.",
                swept,
            )
        )
    does = (
        "The largest id goes from token to token in a feature of its own; at last every id grows "
        f"by {context.max_shift:,} times what it is above {context.threshold:,}"
        if context.carried
        else f"In every layer an id grows by {context.max_shift:,} max, over those it sees"
    )
    named = ": now it names the token and its whole sequence."
    made.append(
        Stage("carried maximum" if context.carried else "max shifts", layers, does + named, shifted)
    )
    return made
