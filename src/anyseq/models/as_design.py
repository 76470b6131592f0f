"""A stack of layers as a Design, from what was seen and what its config declares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from anyseq.design import Design, Layer, Mixer, Recurrence
from anyseq.models.facts import Declared, facts_of
from anyseq.models.look import SeenLayer, SeenStack
from anyseq.models.reading import Fact
from anyseq.models.scores import Told
from anyseq.patterns import Blocks
from anyseq.positions import (
    Absolute,
    ALiBi,
    NoPosition,
    Position,
    RelativeBias,
    Rotary,
    Sinusoidal,
    T5Bias,
)


@dataclass(frozen=True)
class Described:
    """A stack as a Design, or why there is none, with the facts."""

    design: Design | None
    facts: tuple[Fact, ...]
    unknown: tuple[str, ...]
    unproved: tuple[str, ...] = ()
    contained: Design | None = None


def as_design(stack: SeenStack, declared: Declared, tokens: int) -> Described:
    """The Design of a stack, for so many tokens."""
    layers, unknown = [], []
    for number, seen in enumerate(stack.layers):
        try:
            layers.append(_layer(seen, number, declared))
        except _NoLayer as problem:
            unknown.append(f"layer {number + 1} ({seen.module[1]}): {problem}")
    unknown = _shortened(unknown)
    if len({seen.tokens for seen in stack.layers}) > 1:
        unknown.append("tokens are merged or split between layers")
    if stack.entered is not None:
        unknown.append(f"positions enter before layer {stack.entered + 1}, not at the input")
    position = _input_position(stack)
    if position is None:
        unknown.append("some positions get the same vector at the input, others do not")
    facts = tuple(facts_of(stack, layers, declared, position))
    if unknown or position is None:
        return Described(None, facts, tuple(unknown))
    norms = Counter(seen.norms for seen in stack.layers).most_common(1)[0][0]
    design = Design(
        tokens,
        layers=layers,
        position=position,
        block_norm=norms,
        final_norm=stack.final_norm,
        head=declared.head,
        domain="ids" if declared.ids else "cube",
        depth=len(layers),
    )
    borrows = [seen.borrows for seen in stack.layers]
    contained = None
    if any(borrows):
        kept = [_idle(layer) if own else layer for layer, own in zip(layers, borrows, strict=True)]
        contained = design.with_layers(kept)
    unproved = tuple(_unproved(stack))
    return Described(design, facts, tuple(_left_out(stack)), unproved, contained)


def _idle(layer: Layer) -> Layer:
    """The layer with attention that gives each token only its own content."""
    return Layer(Blocks(1), feedforward=layer.feedforward)


BORROWS = "layers attend to keys and values of earlier layers"
READS_THE_ENCODER = "layers also attend to what the encoder read"

_DECAYS = ("Mamba", "Recurrent")
"""Parts of the names of modules that carry a state whose features decay independently: state spaces
and RG-LRU, not delta rules."""


def _left_out(stack: SeenStack) -> Iterator[str]:
    """What the Design leaves out. A network of the Design can do the same with more features: it
    keeps what a layer read for a later one. Nothing is claimed about the converse."""
    if stack.crossing:
        yield f"{stack.crossing} {READS_THE_ENCODER}"
    borrowed = sum(seen.borrows for seen in stack.layers)
    if borrowed:
        yield f"{borrowed} {BORROWS}"
    beside = sum(seen.beside for seen in stack.layers)
    if beside:
        yield f"{beside} layers run beside the one before, on the same input, not after it"


def _unproved(stack: SeenStack) -> Iterator[str]:
    """What the design has only as an upper bound, since no theorem says that the model can do
    it."""
    for kind in dict.fromkeys(
        seen.module[1] for seen in stack.layers if isinstance(seen.mixer, Recurrence)
    ):
        if not any(part in kind for part in _DECAYS):
            yield f"{kind} carries a state, but not by decays that a theorem covers"


class _NoLayer(Exception):
    """Why a Design cannot have such a layer."""


def _layer(seen: SeenLayer, number: int, declared: Declared) -> Layer:
    if seen.hides:
        raise _NoLayer(f"it holds {seen.hides} layers of attention that cannot be told apart")
    if seen.pattern is None:
        raise _NoLayer("its mask is not one of the known patterns")
    if seen.mixer is None:
        raise _NoLayer("it mixes tokens, but not by attention, a recurrence or a convolution")
    if isinstance(seen.mixer, Mixer):
        return Layer(mixer=seen.mixer, feedforward=seen.feedforward)
    return Layer(
        pattern=seen.pattern.real,
        position=_position(seen, number, declared),
        sinks=seen.told.sinks,
        feedforward=seen.feedforward,
    )


def _position(seen: SeenLayer, number: int, declared: Declared) -> Position:
    told = seen.told
    if not (told.sums_to_one or told.sinks):
        raise _NoLayer("what it gives for identical tokens depends on their positions")
    if told.kind == "none":
        return NoPosition()
    if told.kind == "linear":
        return ALiBi()
    if told.kind == "buckets" and declared.buckets is not None:
        return T5Bias(*declared.buckets)
    if told.kind == "offset":
        return _bias(told, seen, declared)
    if told.kind == "content" and declared.turns:
        base = declared.base(number)
        return Rotary() if base is None else Rotary(base)
    if told.kind == "content":
        raise _NoLayer("scores mix offset and content in a way that none of the Positions does")
    if told.kind == "absolute":
        raise _NoLayer("scores depend on positions other than by their offset")
    raise _NoLayer("its scores could not be observed, nor how they depend on positions")


def _bias(told: Told, seen: SeenLayer, declared: Declared) -> Position:
    tokens = (len(told.groups) + 1) // 2
    met = [offset for offset, group in zip(range(1 - tokens, tokens), told.groups, strict=True)
           if group >= 0]  # fmt: skip
    groups = [told.groups[offset + tokens - 1] for offset in met]
    if declared.buckets is not None:
        assert seen.pattern is not None
        both = bool(min(met) < 0)
        position = T5Bias(*declared.buckets, bidirectional=both)
        labels = position.label(torch.tensor(met)).tolist()
        if len(set(zip(labels, groups, strict=True))) == len(set(labels)) == len(set(groups)):
            return position
    if len(set(groups)) == len(groups):
        return RelativeBias()
    raise _NoLayer("offsets share biases in a way that none of the Positions has")


def _input_position(stack: SeenStack) -> Position | None:
    kinds: dict[str, Position] = {
        "none": NoPosition(),
        "learned": Absolute(),
        "fixed": Sinusoidal(),
    }
    return kinds.get(stack.input.kind)


def _shortened(reasons: list[str]) -> list[str]:
    """One line for each reason, of the first layer that has it."""
    first: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for one in reasons:
        why = one.split(": ", 1)[1]
        first.setdefault(why, one)
        counts[why] += 1
    return [text + _and_more(counts[why] - 1) for why, text in first.items()]


def _and_more(count: int) -> str:
    if count == 0:
        return ""
    return " (so does 1 more)" if count == 1 else f" (so do {count:,} more)"
