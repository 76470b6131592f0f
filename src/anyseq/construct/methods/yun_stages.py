"""Which layers of a network of method "yun" do what."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anyseq.construct.gadgets import clip_layers, erase_layers
from anyseq.construct.stages import Reading, Stage

if TYPE_CHECKING:
    from anyseq.construct.methods.yun import YunRecipe


def stages(recipe: YunRecipe) -> tuple[Stage, ...]:
    """Ids are read in units of δ and without the lift, until they are rescaled."""
    ask, context = recipe.ask, recipe.context
    entries = Reading("entries", 0, ask.features)
    outputs = Reading("T", 0, ask.out_features)

    def ids(unit: float, lift: int) -> Reading:
        return Reading("id", 0, recipe.width, tuple(u / unit for u in context.digits), -lift)

    shifted = ids(recipe.step, recipe.lift)
    outside = (
        Stage("bound", clip_layers(ask.features), "Entries far outside come near.", entries),
        Stage("banish", ask.features, "Entries outside [0, 1) go far below 0.", entries),
    )
    erase = (
        Stage(
            "erase",
            erase_layers(recipe.width),
            "Sequences with two tokens in one cell, or a banished one, become 0.",
            shifted,
        ),
    )
    return (
        *(() if recipe.positions else outside),
        Stage(
            "quantise",
            ask.features * recipe.quantised_cells,
            "One layer per cell: an entry in it goes to its lower end"
            + (" (token j carries + j - 1)." if recipe.positions else "."),
            entries,
        ),
        Stage(
            "selective shifts",
            len(context.windows),
            f"One layer per possible id, upward: a token with that id moves by "
            f"{context.selective_shift:,} (max - min).",
            ids(recipe.step, 0),
        ),
        Stage(
            "global shift",
            1,
            f"Every id grows by {context.global_shift:,} max: now it names the token and its "
            "whole sequence.",
            shifted,
        ),
        *(() if recipe.positions else erase),
        Stage(
            "rescale",
            1,
            "Ids stay as they are: small enough for the value map."
            if recipe.scale == 1.0
            else f"Ids, rounded, are multiplied by 2^{round(math.log2(recipe.scale))}, so that the "
            "value map rounds less.",
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
    )
