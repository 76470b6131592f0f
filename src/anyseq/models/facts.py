"""What is known about a stack of layers, in words, and whether it is declared or was only seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from anyseq.base import layers_named
from anyseq.design import Layer, Mixer
from anyseq.models.look import SeenLayer, SeenStack
from anyseq.models.reading import Fact, Source
from anyseq.patterns import Causal, Full, Pattern, pattern_text
from anyseq.positions import (
    Absolute,
    ALiBi,
    NoPosition,
    Position,
    RelativeBias,
    Rotary,
    Sinusoidal,
    T5Bias,
    position_text,
)

NO_BOS = "BOS: the model adds none; a tokenizer may"

T = TypeVar("T")


def _no_base(layer: int) -> None:
    return None


@dataclass(frozen=True)
class Declared:
    """What is known about a model without running it.

    checked: whether a person compared what is read of its family with its source.
    base: the base of rotary positions in a layer, counted from 0; None if none are declared.
    turns: whether the model has a part that turns vectors by their position.
    says_where_not: whether the config says which layers have no positions.
    buckets: number and largest distance of buckets of a bias.
    causal: whether it is a causal model; None if nothing says so.
    head: whether a linear map follows. ids: whether it takes token ids.
    """

    checked: bool = False
    base: Callable[[int], float | None] = _no_base
    turns: bool = False
    says_where_not: bool = False
    buckets: tuple[int, int] | None = None
    causal: bool | None = None
    head: bool = False
    ids: bool = False


def facts_of(
    stack: SeenStack, layers: Sequence[Layer], declared: Declared, position: Position | None
) -> Iterator[Fact]:
    """What is known about a stack, and how it is known. layers: those that a Design can have; all,
    if it can."""
    sure: Source = "declared" if declared.checked else "seen"
    yield from _patterns(stack, declared)
    if position == Absolute():
        known: Source = "declared" if declared.ids or declared.checked else "seen"
        yield Fact("positions: a learned vector per position, added to the input", known)
    elif position == Sinusoidal():
        yield Fact("positions: a fixed vector per position, added to the input", sure)
    if len(layers) == len(stack.layers):
        yield from _positions(layers, position, declared)
    if any(seen.told.sinks for seen in stack.layers):
        which = tuple(one for one, seen in enumerate(stack.layers, 1) if seen.told.sinks)
        says = "sinks: a learned score per head takes weight and gives no value"
        yield Fact(says, sure, which if len(which) < len(stack.layers) else ())
    yield from _blocks(stack, sure)
    if declared.causal:
        yield Fact(NO_BOS, "declared")


def _patterns(stack: SeenStack, declared: Declared) -> Iterator[Fact]:
    """Which tokens each token attends to, layer by layer, equal neighbours together."""
    rows = [
        (_seen_text(seen), _is_declared(seen, declared), one)
        for one, seen in enumerate(stack.layers, 1)
    ]
    kinds = [(text, source) for text, source, _ in rows]
    for (text, source), which in _grouped(kinds):
        yield Fact(f"{_which(which, len(rows))}{text}", source, which)


def _seen_text(seen: SeenLayer) -> str:
    if isinstance(seen.mixer, Mixer):
        return str(seen.mixer)
    return "another pattern" if seen.pattern is None else pattern_text(seen.pattern.real)


def _is_declared(seen: SeenLayer, declared: Declared) -> Source:
    if declared.checked:
        return "declared"
    if seen.pattern is None or seen.mixer is None or isinstance(seen.mixer, Mixer):
        return "seen"
    plain: Pattern = Causal() if declared.causal else Full()
    if seen.pattern.width is not None or seen.pattern.real == plain:
        return "declared" if declared.causal is not None else "seen"
    return "seen"


def _positions(
    layers: Sequence[Layer], at_input: Position | None, declared: Declared
) -> Iterator[Fact]:
    kinds = [layer.position if layer.attends else None for layer in layers]
    attending = {kind for kind in kinds if kind is not None}
    if at_input != NoPosition() and attending <= {NoPosition()}:
        return
    mixed = NoPosition() in attending and len(attending) > 1
    for kind, which in _grouped(kinds):
        if kind is None:
            continue
        source: Source = "declared" if declared.checked else "seen"
        if isinstance(kind, Rotary) and declared.base(which[0] - 1) is not None and not mixed:
            source = "declared"
        if mixed and declared.says_where_not:
            source = "declared"
        if isinstance(kind, T5Bias):
            source = "declared"
        yield Fact(f"{_which(which, len(layers))}{_position_words(kind)}", source, which)


def _position_words(position: Position) -> str:
    match position:
        case Rotary(base):
            return f"positions: rotary, base {base:,.0f}"
        case T5Bias(buckets, distance):
            return (
                f"positions: a learned bias per head and bucket of offsets, {buckets} buckets up "
                f"to distance {distance}"
            )
        case ALiBi():
            return "positions: ALiBi, a fixed slope per head"
        case RelativeBias():
            return "positions: a learned bias per head and offset"
        case NoPosition():
            return "positions: none"
    return f"positions: {position_text(position)}"


def _blocks(stack: SeenStack, sure: Source) -> Iterator[Fact]:
    places = {seen.norms for seen in stack.layers}
    words = {
        "pre": "norms before the halves of each block",
        "post": "norms at the ends of the halves of each block",
        "sandwich": "norms within the residual branches of each block, at their ends",
    }
    for place in sorted(one for one in places if one is not None):
        which = tuple(one for one, seen in enumerate(stack.layers, 1) if seen.norms == place)
        yield Fact(words[place], sure, which if len(which) < len(stack.layers) else ())
    if stack.final_norm is not None:
        name = "an RMS norm" if stack.final_norm.endswith("rmsnorm") else "a layer norm"
        yield Fact(f"{name} after the last block", sure)
    for extra in dict.fromkeys(one for seen in stack.layers for one in seen.extras):
        which = tuple(one for one, seen in enumerate(stack.layers, 1) if extra in seen.extras)
        yield Fact(f"{_which(which, len(stack.layers))}{extra}", sure, which)
    bare = tuple(one for one, seen in enumerate(stack.layers, 1) if not seen.feedforward)
    if bare:
        yield Fact(f"{_which(bare, len(stack.layers))}no feed-forward layer", sure, bare)
    if stack.tied:
        yield Fact("some layers share their weights", sure)


def _grouped(kinds: Sequence[T]) -> list[tuple[T, tuple[int, ...]]]:
    """Each kind of layer with its layers, counted from 1."""
    found: dict[T, list[int]] = {}
    for one, kind in enumerate(kinds, 1):
        found.setdefault(kind, []).append(one)
    return [(kind, tuple(which)) for kind, which in found.items()]


def _which(layers: tuple[int, ...], count: int) -> str:
    """ "layers 1-3, 5: ", or nothing if these are all."""
    return "" if len(layers) == count else f"{layers_named(layers)}: "
