"""A design in one line."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from anyseq.design import Design, Layer, Mixer
from anyseq.patterns import Full, pattern_text
from anyseq.positions import NoPosition, position_text
from anyseq.probability import Softmax, prob_map_text

_LISTED = 8  # runs of equal layers that are named


def describe(design: Design) -> str:
    """Tokens, layers, position, and whatever is not as usual."""
    parts = [f"{design.tokens:,} tokens"]
    if design.layers is None:
        parts.append(" then ".join(map(pattern_text, design.cycle)))
        parts.append(_positions(design.position))
        parts += _usual_aside(design.layer_cycle[0])
    else:
        if design.position != NoPosition():
            parts.append(f"{_positions(design.position)} at the input")
        parts.append(layers_in_words(design.layers))
    parts += ["BOS"] * design.bos
    parts += [f"{design.block_norm}-norm blocks"] * (design.block_norm is not None)
    parts += [f"final {design.final_norm}"] * (design.final_norm is not None)
    parts += ["a linear head"] * design.head + ["token ids"] * (design.domain == "ids")
    if design.readout != "all":
        parts.append(f"read at {design.readout}")
    if design.depth is not None:
        parts.append(f"depth {design.depth}")
    return ", ".join(parts)


def layers_in_words(layers: Sequence[Layer]) -> str:
    """The layers in their order, equal neighbours together."""
    runs = [(layer, len(list(group))) for layer, group in groupby(layers)]
    words = [
        f"{count} x ({layer_text(layer)})" if count > 1 else f"({layer_text(layer)})"
        for layer, count in runs[:_LISTED]
    ]
    more = ["..."] * (len(runs) > _LISTED)
    return " then ".join([*words, *more])


def layer_text(layer: Layer) -> str:
    """One layer: its mixer or pattern, position, and whatever is not as usual."""
    if isinstance(layer.mixer, Mixer):
        pattern = layer.pattern != Full() and layer.mixer.takes_pattern
        parts = [str(layer.mixer)] + [pattern_text(layer.sees)] * pattern
    else:
        parts = [pattern_text(layer.sees), _positions(layer.position)]
    return ", ".join([*parts, *_usual_aside(layer)])


def _positions(position: object) -> str:
    name = position_text(position)  # type: ignore[arg-type]
    return "no positions" if name == "none" else f"{name} positions"


def _usual_aside(layer: Layer) -> list[str]:
    """What is not as in most layers."""
    parts = []
    if layer.probability != Softmax():
        parts.append(prob_map_text(layer.probability))
    parts += ["sinks"] * layer.sinks
    return parts + ["no feed-forward"] * (not layer.feedforward)
