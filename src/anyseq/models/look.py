"""The layers of a model, by running it: which tokens each attends to, how positions enter, and what
else a block has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from anyseq.design import ATTENTION, Convolution, Mixer, Recurrence
from anyseq.models.blocks import final_norm, holds_feedforward, is_whole_block, norm_place
from anyseq.models.borrowing import with_borrowing
from anyseq.models.calls import Call, adds_residual, record
from anyseq.models.dependence import Step, follows, steps
from anyseq.models.input_seen import InputSeen, difference, input_seen
from anyseq.models.masks import Recognised, Widths, recognised
from anyseq.models.scores import (
    Told,
    commutes,
    same_inside,
    told_by_gradients,
    told_by_scores,
)
from anyseq.patterns import Causal, Full, Window

_POSITIONS = 1e-2  # what positions change, at least, relative to the largest number
_PADDING = 8  # tokens that a model adds at the end, at most
_WIDEST = 16  # radius of a convolution


@dataclass(frozen=True)
class SeenLayer:
    """One layer, as it was seen.

    module: its name in the model, and its class. tokens: how many it was run on.
    pattern: which tokens each token attends to; None if it is not a known pattern.
    mixer: "attention", what replaces it, or None if that is not known.
    told: how attention depends on positions.
    norms: the place of the block's norms.
    beside: whether it runs side by side with the layer before, on the same input.
    borrows: whether it attends to keys of earlier layers only; then it depends on positions as an
        earlier layer with the same pattern does.
    hides: how many calls of attention it holds that could not be told apart, if several.
    extras: what else its attention has, by the names of its parts.
    """

    module: tuple[str, str]
    tokens: int
    pattern: Recognised | None
    mixer: str | Mixer | None
    told: Told
    feedforward: bool
    norms: str | None
    beside: bool = False
    borrows: bool = False
    hides: int = 0
    extras: tuple[str, ...] = ()


@dataclass(frozen=True)
class SeenStack:
    """The layers that follow each other on one sequence. tokens: how many they were run on.

    part: "encoder" or "decoder" of a model that has both, otherwise "".
    entered: the first layer before which equal tokens become different though no layer before
        it distinguishes them; None if there is none.
    tied: whether modules are called more than once. crossing: calls of attention to another
        sequence.
    """

    part: str
    tokens: int
    layers: tuple[SeenLayer, ...]
    input: InputSeen
    final_norm: str | None
    entered: int | None
    tied: bool
    crossing: int


@dataclass(frozen=True, eq=False)
class Runs:
    """How a model is run: on sequences of different tokens and on such of equal ones, each the
    same in all `rows` of a batch.

    lengths: of these sequences. widths: of its windows and chunks. patterns: what else may be seen.
    decoder: its decoder, if it has an encoder too.
    """

    model: torch.nn.Module
    different: Callable[[], Any]
    equal: Callable[[], Any]
    rows: int
    lengths: tuple[int, ...]
    widths: Widths
    patterns: Sequence[Recognised] = ()
    decoder: torch.nn.Module | None = None


def look(runs: Runs) -> tuple[SeenStack, ...]:
    """What running a model shows of its stacks of layers."""
    root = record(runs.model, runs.different)
    found = with_borrowing(steps(root, runs.rows), root)
    same = record(runs.model, runs.equal, scores=False)
    again = _paired(root, same)
    stacks = []
    for part, chosen in _by_part(found, runs.decoder).items():
        if any(step.sees is not None for step in chosen):
            stacks.append(_stack(part, chosen, root, again, runs))
    return tuple(stacks)


def _paired(root: Call, other: Call) -> dict[Call, Call]:
    """The calls of one run and those of another: each module's first, second, ... call."""
    numbered = []
    for run in (root, other):
        count: Counter[str] = Counter()
        calls = {}
        for call in run.walk():
            calls[call.name, count[call.name]] = call
            count[call.name] += 1
        numbered.append(calls)
    first, second = numbered
    return {call: second[key] for key, call in first.items() if key in second}


def _by_part(found: Sequence[Step], decoder: torch.nn.Module | None) -> dict[str, list[Step]]:
    if decoder is None:
        return {"": list(found)}
    parts: dict[str, list[Step]] = {"encoder": [], "decoder": []}
    for step in found:
        inside = any(call.module is decoder for call in step.within)
        parts["decoder" if inside else "encoder"].append(step)
    return parts


def _stack(
    part: str, chosen: list[Step], root: Call, again: dict[Call, Call], runs: Runs
) -> SeenStack:
    mixing = [step for step in chosen if step.sees is not None]
    outside = _outside(_around(part, root, runs), mixing)
    earlier = [None, *mixing[:-1]]
    layers: list[SeenLayer] = []
    for step, before, after in zip(mixing, earlier, outside, strict=True):
        norms = norm_place(step, mixing)
        layers.append(_layer(step, before, after, norms, layers, runs))
    entered = _first_told(mixing, layers, again, runs)
    modules = [step.call.module for step in mixing]
    shapes = [
        scores.shape[-2:] for calls in outside for call in calls for scores in call.scores[:1]
    ]
    first = mixing[0]
    tokens = len(_cropped(first, runs.lengths))
    return SeenStack(
        part,
        tokens,
        tuple(layers),
        input_seen(runs.model, again[first.call], runs.rows, tokens),
        final_norm(chosen),
        entered,
        tied=len(set(map(id, modules))) < len(modules),
        crossing=sum(
            queries == first.call.shape[1] and keys in runs.lengths and keys != queries
            for queries, keys in shapes
        ),
    )


def _first_told(
    mixing: Sequence[Step], layers: Sequence[SeenLayer], again: dict[Call, Call], runs: Runs
) -> int | None:
    """The layer before which positions enter, past the input: with equal tokens, as long as all
    layers average, every layer gets the same for all of them. A difference that is small at first
    is rounding, which deep networks and routers amplify."""
    for number, (step, layer) in enumerate(zip(mixing, layers, strict=True)):
        call = again.get(step.call)
        if call is None or call.x is None or call.shape != step.call.shape:
            return None
        apart = difference(call.x, runs.rows, layer.tokens)
        if apart > 0:
            return number if number and apart > _POSITIONS else None
        told = layer.told
        if layer.mixer != ATTENTION or layer.pattern is None or told.sinks or not told.sums_to_one:
            return None
    return None


def _around(part: str, root: Call, runs: Runs) -> list[Call]:
    """The calls of a part of the model."""
    if part == "":
        return list(root.walk())
    decoder = [one for call in root.walk() if call.module is runs.decoder for one in call.walk()]
    if part == "decoder":
        return decoder
    return [call for call in root.walk() if call not in set(decoder)]


def _outside(calls: Sequence[Call], mixing: Sequence[Step]) -> list[list[Call]]:
    """The calls after each step that mixes, up to the next one, without those within them."""
    starts = {id(step.call): number for number, step in enumerate(mixing)}
    inside = {id(call) for step in mixing for call in step.call.walk()}
    found: list[list[Call]] = [[] for _ in mixing]
    current = None
    for call in calls:
        current = starts.get(id(call), current)
        if current is not None and id(call) not in inside:
            found[current].append(call)
    return found


def _layer(
    step: Step,
    earlier: Step | None,
    after: Sequence[Call],
    norms: str | None,
    layers: Sequence[SeenLayer],
    runs: Runs,
) -> SeenLayer:
    call, sees = step.call, _cropped(step, runs.lengths)
    module = (call.name, type(call.module).__name__)
    pattern = recognised(sees | np.eye(len(sees), dtype=bool), runs.widths, runs.patterns)
    if step.borrows:
        alike = (one.told for one in reversed(layers) if one.pattern == pattern)
        told = next(alike, Told("unseen"))
        fed = holds_feedforward(after)
        return SeenLayer(module, len(sees), pattern, ATTENTION, told, fed, norms, borrows=True)
    scored = sum(bool(one.scores) for one in call.walk())
    told = told_by_scores(call, runs.rows)
    if scored and told.kind == "unseen":
        told = told_by_gradients(call, runs.rows, len(sees))
    everything = pattern is not None and pattern.small == Full()
    if told.kind == "none" and everything and not adds_residual(call):
        told = told if commutes(call, runs.rows) else Told("absolute")
    if not (told.sums_to_one or told.sinks) and _has_sinks(call):
        told = replace(told, sinks=True)
    mixer = ATTENTION if scored else _other_mixer(pattern, call, runs.rows)
    assert call.x is not None
    beside = earlier is not None and earlier.call.out is not None and (
        not follows(call.x, earlier.call.out)
    )  # fmt: skip
    return SeenLayer(
        module,
        len(sees),
        pattern,
        mixer,
        told,
        holds_feedforward(after) or is_whole_block(call),
        norms,
        beside,
        hides=scored if scored > 1 else 0,
        extras=_extras(call),
    )


def _extras(call: Call) -> tuple[str, ...]:
    names = {name.lower() for name, _ in call.module.named_children()}
    found = []
    if any("norm" in name and name[0] in "qk" for name in names):
        found.append("queries and keys are normalised")
    if any(name.startswith(("gate", "g_proj", "attn_gate")) for name in names):
        found.append("what heads give is gated")
    return tuple(found)


def _has_sinks(call: Call) -> bool:
    """Whether a parameter of a call is a sink, by its name."""
    return any("sink" in name for name, _ in call.module.named_parameters())


def _cropped(step: Step, lengths: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Which tokens attend to which, without padding that the model itself adds at the end."""
    sees = step.sees
    assert sees is not None
    for length in lengths:
        if length < len(sees) <= length + _PADDING and not sees[:length, length:].any():
            return sees[:length, :length]
    return sees


def _other_mixer(pattern: Recognised | None, call: Call, rows: int) -> Mixer | None:
    """What mixes without softmax: if it depends on all tokens back to the first, it carries a
    state; if it depends on a few tokens, in the same way everywhere, it is a convolution."""
    if pattern is None:
        return None
    small = pattern.small
    if small == Causal():
        return Recurrence()
    for radius in range(1, _WIDEST):
        if small in (Window(radius), Causal() & Window(radius)) and (
            same_inside(call, rows, radius)
        ):
            if small == Window(radius):
                return Convolution(2 * radius + 1)
            return Convolution(radius + 1, causal=True)
    return None
