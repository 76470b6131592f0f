"""What a model declares, layer by layer: by a config, a Design or a pattern."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from anyseq.design import Design, Mixer
from anyseq.errors import InvalidArgument
from anyseq.models.scores import Told
from anyseq.patterns import Causal, Full, Pattern, as_pattern, pattern_text
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
class Claim:
    """What is declared about one layer.

    module: the end of its name; "" if not given.
    pattern: None if it is not known.
    told: how its attention depends on positions, as in `Told.kind`; None if it is not known.
    attends: whether it is attention; None if that is not known.
    why: what declares it, in a few words.
    """

    module: str
    pattern: Pattern | None
    told: str | None = None
    attends: bool | None = True
    why: str = ""

    @property
    def text(self) -> str:
        """The pattern in words, and what says so."""
        pattern = "?" if self.pattern is None else pattern_text(self.pattern)
        return f"{pattern} ({self.why})" if self.why else pattern


@dataclass(frozen=True)
class Claims:
    """What is declared about a stack of layers.

    source: where, in words.
    layers: each layer; if `repeated`, they repeat in order over all layers.
    causal: whether no output depends on a later token; None if this is not declared.
    shifts: whether positions at the input count padding too, unless positions are given.
    documents: whether position_ids that restart keep documents apart, as far as it is known.
    """

    source: str
    layers: tuple[Claim, ...]
    causal: bool | None
    repeated: bool = False
    shifts: bool | None = None
    documents: bool | None = None

    def longest(self) -> int:
        """The least length at which every pattern hides something that all tokens before, or all
        tokens, would not; as far as 2,048. Patterns for one length only are ignored."""
        length = 2
        patterns = {one.pattern for one in self.layers} - {None, Causal(), Full()}
        for pattern in patterns:
            if pattern is None or pattern.natural_length is not None:
                continue
            while length < 2048 and not hides(pattern, length):
                length = length + 1 if length < 64 else length + 16
        return length


def hides(pattern: Pattern, tokens: int) -> bool:
    """Whether a pattern hides something, beside later tokens, among so many."""
    try:
        mask = pattern.mask(tokens)
    except InvalidArgument:  # it names tokens beyond these
        return False
    return not any(mask.equal(plain.mask(tokens)) for plain in (Causal(), Full()))


def claims_of(declared: Any) -> Claims:
    """The claims of a Design, a Pattern, a mask_mod or a bool mask."""
    if isinstance(declared, Design):
        return _of_design(declared)
    pattern = _as_pattern(declared)
    causal = _within(pattern, Causal())
    name = pattern_text(pattern)
    return Claims(name, (Claim("", pattern),), causal, repeated=True)


def _as_pattern(declared: Any) -> Pattern:
    if isinstance(declared, str | Pattern | torch.Tensor) or callable(declared):
        return as_pattern(declared)
    raise InvalidArgument(
        f"declared={declared!r}: expected a Hugging Face config or its path, a Design, a pattern, "
        "a mask_mod or a bool mask"
    )


def _of_design(design: Design) -> Claims:
    if design.bos:
        raise InvalidArgument(
            "declared: a Design with bos=True; expected one without, of the tokens that the model "
            "gets"
        )
    claims = tuple(
        Claim("", None if isinstance(layer.mixer, Mixer) else layer.pattern,
              _kind(layer.position), not isinstance(layer.mixer, Mixer))
        for layer in design.layer_cycle
    )  # fmt: skip
    if design.depth is not None:
        claims = tuple(claims[number % len(claims)] for number in range(design.depth))
    causal = all(one.pattern is not None and _within(one.pattern, Causal()) for one in claims)
    shifts = isinstance(design.position, Absolute | Sinusoidal)
    return Claims("its design", claims, causal, design.depth is None, shifts)


def _kind(position: Position) -> str | None:
    match position:
        case NoPosition() | Absolute() | Sinusoidal():
            return "none"
        case Rotary():
            return "content"
        case ALiBi():
            return "linear"
        case RelativeBias() | T5Bias():
            return "offset"
    return None


def _within(pattern: Pattern, other: Pattern) -> bool:
    if pattern.natural_length is not None:
        length = pattern.natural_length
    else:
        length = max(12, _least(pattern))
    return not bool((pattern.mask(length) & ~other.mask(length)).any())


def narrowed(claims: Claims, patterns: Sequence[Pattern | None], why: str) -> Claims:
    """The same with further patterns, or None, for the attention layers in order."""
    left = iter(patterns)
    layers = []
    for one in claims.layers:
        pattern = next(left, None) if one.attends else None
        if pattern is not None and one.pattern is not None:
            one = replace(one, pattern=one.pattern & pattern, why=why)
        layers.append(one)
    return replace(claims, layers=tuple(layers))


def _least(pattern: Pattern) -> int:
    """The least number of tokens that includes those a pattern names."""
    length = 1
    while length < 2048:
        try:
            pattern.mask(length)
        except InvalidArgument:
            length *= 2
        else:
            break
    return length


def only(claims: Claims, layers: tuple[int, ...] | None) -> Claims:
    """The same without claims about layers that were not requested; these count from 1."""
    if layers is None:
        return claims
    if claims.repeated:
        raise InvalidArgument("layers: expected only where the declaration counts layers")
    count = len(claims.layers)
    if not layers or not all(isinstance(one, int) and 1 <= one <= count for one in layers):
        raise InvalidArgument(f"layers={layers}: expected some of 1 to {count}")
    kept = (
        one if number in layers else replace(one, pattern=None, told=None, attends=None)
        for number, one in enumerate(claims.layers, 1)
    )
    return replace(claims, layers=tuple(kept))


def aligned(
    claims: Claims, names: list[str], attends: list[bool]
) -> tuple[list[int | None], list[int]]:
    """The claim about each layer that was seen, or None; and the claims about no layer. names: of
    the modules that move content, in order; attends: which by attention."""
    count = len(claims.layers)
    if claims.repeated:
        return _in_turn(claims, attends), []
    if len(names) == count:
        return list(range(count)), []
    if all(one.module for one in claims.layers):
        return _by_name(claims, names)
    if sum(attends) == count:
        numbers = iter(range(count))
        return [next(numbers) if one else None for one in attends], []
    return [None] * len(names), list(range(count))


def _in_turn(claims: Claims, attends: list[bool]) -> list[int | None]:
    """Attention layers take the claims in order; a single claim for all applies to the rest too."""
    count = len(claims.layers)
    if count == 1:
        return [0] * len(attends)
    numbers = iter(range(len(attends)))
    return [next(numbers) % count if one else None for one in attends]


def _by_name(claims: Claims, names: list[str]) -> tuple[list[int | None], list[int]]:
    left = list(range(len(claims.layers)))
    found: list[int | None] = []
    for name in names:
        which = next((one for one in left if _same(name, claims.layers[one].module)), None)
        if which is not None:
            left.remove(which)
        found.append(which)
    return found, left


def _same(one: str, other: str) -> bool:
    """Whether two names are those of one module, or of one and a part of it, in models that may
    have a head or not: from the number of the layer on."""
    first, second = core(one), core(other)
    shorter = min(len(first), len(second))
    return shorter > 0 and first[:shorter] == second[:shorter]


def core(name: str) -> list[str]:
    """The parts of a module's name from the number of its layer on; [] if it has none."""
    parts = name.split(".")
    numbers = [at for at, part in enumerate(parts) if part.isdigit()]
    return parts[numbers[0] :] if numbers else []


def differing(seen: Told, claimed: str | None) -> bool:
    """Whether attention depends on positions other than as claimed; False where either is
    unknown."""
    sure = {"none", "linear", "offset", "content"}
    return claimed in sure and seen.kind in sure and seen.kind != claimed


def named_layers(layers: tuple[Claim, ...]) -> Iterator[tuple[int, Claim]]:
    """The layers with a pattern that is known, with their numbers, counted from 1."""
    return ((number, one) for number, one in enumerate(layers, 1) if one.pattern is not None)
