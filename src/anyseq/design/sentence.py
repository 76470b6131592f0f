"""A design as people write it: "causal & window(64) then causal, rope, bos, depth 12"."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from anyseq.base import outside_brackets
from anyseq.design.design import Design
from anyseq.design.layer import Layer
from anyseq.design.mixers import parse_mixer
from anyseq.design.words import named, parse_layer
from anyseq.errors import InvalidArgument
from anyseq.patterns import parse_pattern
from anyseq.positions import Absolute, NoPosition

_MOST_LAYERS = 1024


def parse_design(text: str, tokens: int) -> Design:
    """The design, for so many tokens, behind such words, with commas between them.

    First the layers, which repeat to alternate: one, or several with "then" between them, each
    preceded by its number and "x" if it repeats, such as "3 x causal & window(64) then causal". A
    layer is a pattern, a mixer, or in brackets anything that `parse_layer` reads: "(causal, rope,
    sinks) then (recurrence)". Then, in any order: "bos", "depth 12", and what holds for every layer
    that is not in brackets: a position, a probability map, "sinks", "no feed-forward".

    Positions are absolute, at the input, unless another is named or a layer is in brackets.
    """
    first, *others = outside_brackets(text, ",")
    try:
        stages = [_counted(stage) for stage in outside_brackets(first, " then ")]
        bracketed = any(_inside(stage) is not None for _, stage in stages)
        values: dict[str, Any] = {}
        for item in others:
            name, value = _design_word(item) or named(item, pattern=False)
            if name in values:
                raise InvalidArgument(f"{item!r} is a second {name}; expected one")
            values[name] = value
        values.setdefault("position", NoPosition() if bracketed else Absolute())
        like = Design(tokens, **values)
        layers: list[Layer] = []
        for count, stage in stages:
            layers += [_layer(stage, like.layer_cycle[0])] * count
        return like.with_layers(layers)
    except InvalidArgument as problem:
        raise InvalidArgument(f"design {text!r}: {problem}") from None


def _counted(stage: str) -> tuple[int, str]:
    """How many times, and which layer."""
    found = re.fullmatch(r"([0-9]{1,18})\s*x\s+(.*)", stage, flags=re.DOTALL)
    if found is None:
        return 1, stage
    count = int(found[1])
    if not 1 <= count <= _MOST_LAYERS:
        raise InvalidArgument(f"{stage!r}: expected 1 to {_MOST_LAYERS:,} layers")
    return count, found[2]


def _inside(stage: str) -> str | None:
    """What stands inside the outermost brackets, if there are any."""
    if not (stage.startswith("(") and stage.endswith(")")):
        return None
    inner = stage[1:-1]
    depth = 0
    for mark in inner:
        depth += {"(": 1, ")": -1}.get(mark, 0)
        if depth < 0:  # as in "(a | b) & (c | d)"
            return None
    return inner


def _layer(stage: str, like: Layer) -> Layer:
    inner = _inside(stage)
    if inner is not None:
        return parse_layer(inner)
    mixer = parse_mixer(stage)
    if mixer is not None:
        return Layer(mixer=mixer, feedforward=like.feedforward)
    return replace(like, pattern=parse_pattern(stage))


def _design_word(item: str) -> tuple[str, Any] | None:
    """What holds for the whole design."""
    if item.lower() == "bos":
        return "bos", True
    depth = re.fullmatch(r"depth\s+([0-9]{1,18})", item.lower())
    return None if depth is None else ("depth", int(depth[1]))
