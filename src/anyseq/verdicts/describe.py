"""A design in one line."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from anyseq.design import Design, Layer, layer_text, positions_text, unusual_text
from anyseq.patterns import pattern_text
from anyseq.positions import NoPosition

_LISTED = 8  # runs of equal layers that are named


def describe(design: Design) -> str:
    """Tokens, layers, position, and whatever is not the default."""
    if design.layers is None:
        parts = [" then ".join(map(pattern_text, design.cycle)), positions_text(design.position)]
        parts += unusual_text(design.layer_cycle[0])
    else:
        parts = [*_at_the_input(design), layers_in_words(design.layers)]
    return ", ".join([f"{design.tokens:,} tokens", *parts, *_around(design)])


def describe_around(design: Design) -> str:
    """All but the layers."""
    return ", ".join([f"{design.tokens:,} tokens", *_at_the_input(design), *_around(design)])


def _at_the_input(design: Design) -> list[str]:
    position = design.input_position
    return [] if position == NoPosition() else [f"{positions_text(position)} at the input"]


def _around(design: Design) -> list[str]:
    """What is not the default outside the layers."""
    parts = ["BOS"] * design.bos
    parts += [f"{design.block_norm}-norm blocks"] * (design.block_norm is not None)
    parts += [f"final {design.final_norm}"] * (design.final_norm is not None)
    parts += ["a linear head"] * design.head + ["token ids"] * (design.domain == "ids")
    if design.readout != "all":
        parts.append(f"read at {design.readout}")
    if design.depth is not None:
        parts.append(f"depth {design.depth}")
    return parts


def layers_in_words(layers: Sequence[Layer]) -> str:
    """The layers in their order, equal neighbours together."""
    runs = [(layer, len(list(group))) for layer, group in groupby(layers)]
    words = [
        f"{count} x ({layer_text(layer)})" if count > 1 else f"({layer_text(layer)})"
        for layer, count in runs[:_LISTED]
    ]
    more = ["..."] * (len(runs) > _LISTED)
    return " then ".join([*words, *more])
