"""A layer as people write it: "causal & window(3), rope, sinks"."""

from __future__ import annotations

from typing import Any

from anyseq.base import outside_brackets
from anyseq.design.layer import Layer
from anyseq.design.mixers import WRITTEN, Mixer, parse_mixer
from anyseq.errors import InvalidArgument
from anyseq.patterns import Full, Pattern, parse_pattern, pattern_text
from anyseq.positions import Position, parse_position, position_text
from anyseq.probability import Softmax, names_prob_map, prob_map_text, resolve_prob_map


def layer_text(layer: Layer) -> str:
    """One layer: its mixer or pattern, position, and whatever is not the default; `parse_layer`
    reads it, if patterns and positions have names."""
    if isinstance(layer.mixer, Mixer):
        parts = [str(layer.mixer)] + [pattern_text(layer.sees)] * (layer.pattern != Full())
    else:
        parts = [pattern_text(layer.sees), positions_text(layer.position)]
    return ", ".join([*parts, *unusual_text(layer)])


def positions_text(position: Position) -> str:
    """Such as "rope positions" or "no positions"."""
    name = position_text(position)
    return "no positions" if name == "none" else f"{name} positions"


def unusual_text(layer: Layer) -> list[str]:
    """What is not the default, beside pattern, mixer and position."""
    parts = []
    if layer.probability != Softmax():
        parts.append(prob_map_text(layer.probability))
    parts += ["sinks"] * layer.sinks
    return parts + ["no feed-forward"] * (not layer.feedforward)


def parse_layer(text: str) -> Layer:
    """The layer behind such words, with commas between them.

    First a pattern, as `parse_pattern` reads it, or a mixer, as `parse_mixer` does, optionally
    followed by its pattern. Then, in any order: a position ("rope", "none"), a probability map
    ("topk(8)"), "sinks", "no feed-forward".
    """
    first, *others = outside_brackets(text, ",")
    values: dict[str, Any] = {}
    try:
        mixer = parse_mixer(first)
        values = {"pattern": _pattern(first)} if mixer is None else {"mixer": mixer}
        for item in others:
            open_ = mixer is not None and mixer.takes_pattern and "pattern" not in values
            name, value = named(item, pattern=open_)
            if name in values:
                raise InvalidArgument(f"{item!r} is a second {name}; expected one")
            values[name] = value
        return Layer(**values)
    except InvalidArgument as problem:
        raise InvalidArgument(f"layer {text!r}: {problem}") from None


def _pattern(first: str) -> Pattern:
    try:
        return parse_pattern(first)
    except InvalidArgument as problem:
        raise InvalidArgument(f"{problem}; or a mixer, one of {', '.join(WRITTEN)}") from None


def named(item: str, *, pattern: bool) -> tuple[str, Any]:
    """Which field of a layer an item is, and its value. pattern: whether it may be the pattern."""
    word = item.partition("(")[0].strip().lower()
    match word.split():
        case ["sinks"]:
            return "sinks", True
        case ["no", "feed-forward"]:
            return "feedforward", False
        case ["no", "positions"]:
            return "position", parse_position("none")
    if names_prob_map(word):
        return "prob_map", resolve_prob_map(item.lower())
    if pattern:
        return "pattern", parse_pattern(item)
    try:
        return "position", parse_position(item.removesuffix(" positions"))
    except InvalidArgument as problem:
        raise InvalidArgument(
            f"{problem}; or 'sinks', 'no feed-forward', or a map such as 'topk(8)'"
        ) from None
