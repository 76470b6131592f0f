"""Layer by layer: which tokens each attends to, forward and backward, and how it uses their
positions, against what is declared.

The gradient of a layer's output for token i, by its input for token j, is exactly 0 where nothing
leads from j to i. The layer is also run again with other content at token j.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from anyseq.models.dependence import mixes
from anyseq.models.faults.claims import Claim, Claims, aligned, core, differing
from anyseq.models.faults.fault import Fault
from anyseq.models.faults.repairs import repair_of_layer
from anyseq.models.faults.rule import Asked, NotChecked, Note
from anyseq.models.faults.seen import (
    Array,
    Seen,
    effects,
    gradient_share,
    largest,
    rounding,
    seen_layers,
    share,
)
from anyseq.models.faults.snippets import gradient_of_layer, swapped_tokens
from anyseq.models.faults.subject import Subject
from anyseq.models.function import random_weights
from anyseq.patterns import Causal, Full

_GENTLE = 0.25  # of the size of weights: no score is so low that a key gets a weight of 0
_CLEAR = 1e-3  # a gradient that large, relative to the largest of its row, has a forward effect
_FELT = 1e-4  # an effect that large has a gradient
_LITTLE, _MORE = 1e-3, 0.1  # changes of a token: in float64, and where rounding is coarse
_SHOWN = 4  # names of modules in a note
_EARLIER = "let it work on each token by itself, or shift, pad and average over earlier tokens only"
_KINDS = {
    "none": "no positions",
    "content": "rotary positions",
    "linear": "a bias linear in the distance",
    "offset": "a bias by offset",
}


@dataclass(frozen=True, eq=False)
class Layer:
    """A module that moves content, with what is declared of it. number: of the layer that it
    belongs to, counted from 1; None if it belongs to none."""

    subject: Subject
    causal: bool
    claim: Claim
    seen: Seen
    number: int | None

    @property
    def declared(self) -> Array:
        """(tokens, tokens) bool, the token itself always."""
        assert self.claim.pattern is not None
        mask: Array = self.claim.pattern.mask(self.subject.tokens).numpy()
        return mask | np.eye(len(mask), dtype=bool)

    @property
    def outputs(self) -> Array:
        """(tokens, 1) bool: those that were checked."""
        looked = self.seen.outputs
        return np.ones((self.subject.tokens, 1), dtype=bool) if looked is None else looked[:, None]

    @property
    def part(self) -> str:
        """Words for what carries content, where that is not attention."""
        kind = type(self.seen.call.module).__name__
        return "" if self.seen.attends else f"through {kind}, "

    @property
    def forward(self) -> Array:
        """(tokens, tokens) bool: where the forward pass was seen to carry content."""
        felt = self.seen.felt
        return self.seen.sees if felt is None else felt > 0

    def fault(self, rule: str, says: str, chosen: Array, repair: str | None, shows: str) -> Fault:
        """The fault at the chosen pair with the largest effect; {i}, {j} stand for its tokens."""
        i, j = largest(chosen, self.seen)
        size = 1.0 if rule == "lost" else share(self.seen, (i, j))
        expected = shows.format(i=i, j=j)
        x = self.subject.draw()
        snippet = gradient_of_layer(self.subject, x, self.seen.name, (i, j), expected)
        says = f"{self.part}{says.format(i=i, j=j)}; declared: {self.claim.text}"
        layers = () if self.number is None else (self.number,)
        return Fault(rule, says, layers, self.seen.name, (i, j), size, snippet, repair)


def layers(asked: Asked) -> Iterator[Fault | Note]:
    """Faults of single layers, equal ones together."""
    subject = asked.subject

    def again() -> list[Seen]:
        with random_weights(subject.module, 2, _GENTLE):
            return seen_layers(subject)

    with random_weights(subject.module, 1):  # its own may hide what they do not use yet
        seen = seen_layers(subject, positions=True)
        if not seen:
            raise NotChecked("no part of the model was seen to move content between tokens")
        faults, paired = compared(subject, asked.claims, seen)
    which, missing = aligned(
        asked.claims, [one.name for one in seen], [one.attends for one in seen]
    )
    if all(one is None for one in which):
        yield _uncounted(asked.claims, seen)
    faults += lost(paired, again)
    faults += _without_layers(asked.claims, missing)
    yield from together(faults)


def compared(subject: Subject, claims: Claims, seen: list[Seen]) -> tuple[list[Fault], list[Layer]]:
    """What layers do beyond their claims, and the layers with their claims."""
    found: list[Fault] = []
    paired = []
    which, _ = aligned(claims, [one.name for one in seen], [one.attends for one in seen])
    counted = _counted(seen) if claims.repeated else [None if n is None else n + 1 for n in which]
    for one, number, layer in zip(seen, which, counted, strict=True):
        if number is None:
            found += _undeclared(subject, claims, one, which, seen)
            continue
        claim = claims.layers[number]
        if claim.pattern is not None:
            paired.append(Layer(subject, claims.causal is True, claim, one, layer))
            found += _beyond(paired[-1])
        if layer is not None:
            found += _positions(subject, claim, one, layer)
    return found, paired


def _counted(seen: list[Seen]) -> list[int | None]:
    """The number of the layer of each module, where nothing declares how many there are: attention
    modules are counted, and other modules in the same block get the same number."""
    if not any(one.attends for one in seen):
        return [number for number, _ in enumerate(seen, 1)]
    attention = [one for one in seen if one.attends]
    numbers = {one.name: number for number, one in enumerate(attention, 1)}
    of_block = {tuple(core(one.name)[:1]): numbers[one.name] for one in reversed(attention)}
    of_block.pop((), None)
    return [numbers.get(one.name, of_block.get(tuple(core(one.name)[:1]))) for one in seen]


def _beyond(layer: Layer) -> Iterator[Fault]:
    """What a layer depends on although its declaration hides it; and where its gradients differ
    from its forward pass."""
    hidden, seen = ~layer.declared & layer.outputs, layer.seen
    later = np.triu(np.ones_like(hidden), 1) & layer.causal
    for rule, region in (("future", later), ("window", ~later)):
        leaks = hidden & region & (layer.forward | seen.sees)
        if not leaks.any():
            continue
        backward = gradient_share(seen, largest(leaks, seen))
        if not (leaks & layer.forward).any() and backward > _CLEAR:
            says = "the gradient of output {i} reaches token {j}, which the forward pass hides"
            shows = "0 if no gradient reaches token {j} from output {i}"
            same = "let the backward pass use the same mask"
            yield layer.fault("gradient", says, leaks, same, shows)
            return
        does, do = ("attends to", "attend to") if seen.attends else ("depends on", "depend on")
        says = f"token {{i}} {does} " + "the later " * (rule == "future") + "token {j}"
        repair = _repair(layer, rule, leaks) if seen.attends else _EARLIER
        yield layer.fault(rule, says, leaks, repair, f"0 if token {{i}} does not {do} token {{j}}")
    if seen.felt is None:
        return
    untrained = (seen.felt > _FELT) & ~seen.sees & layer.declared
    if untrained.any() and (untrained := untrained & _felt_nearby(layer)).any():
        yield layer.fault(
            "gradient",
            "token {i} attends to token {j}, which gets no gradient from it",
            untrained,
            "look for detach(), no_grad() or a backward pass of its own",
            "not 0 if gradients reach token {j} from output {i}",
        )


def _repair(layer: Layer, rule: str, pairs: Array) -> str | None:
    i, j = np.nonzero(pairs)
    return repair_of_layer(layer.subject, rule, layer.claim, int(np.abs(i - j).max()))


def _felt_nearby(layer: Layer) -> Array:
    """Whether outputs change with each token that changes a little, in either direction: not where
    a sparse map gives a weight of 0 there and nearby."""
    rounded = rounding(layer.subject)
    size = _LITTLE if rounded < _LITTLE**2 else _MORE
    ways = [effects(layer.seen.call, rounded, sign * size) for sign in (1, -1)]
    pairs: Array = np.all([way > 0 for way in ways if way is not None], axis=0)
    return pairs


def _missing(layer: Layer) -> Array:
    """The pairs that are declared and were not seen."""
    if not (layer.seen.attends and layer.claim.attends):
        return np.zeros_like(layer.seen.sees)
    missing: Array = layer.declared & layer.outputs & ~layer.seen.sees & ~layer.forward
    return missing


def lost(paired: list[Layer], again: Callable[[], list[Seen]]) -> list[Fault]:
    """Pairs that are declared and were not seen, not even in a second run with lower scores: with
    high ones a key may get a weight of 0."""
    if not any(_missing(one).any() for one in paired):
        return []
    by_name = {one.name: one for one in again()}
    found = []
    for layer in paired:
        pairs = _missing(layer)
        if layer.seen.name in by_name:
            pairs &= _missing(replace(layer, seen=by_name[layer.seen.name]))
        if pairs.any():
            says = "token {i} does not attend to token {j}"
            repair = _repair(layer, "lost", pairs)
            shows = "not 0 if token {i} attends to token {j}"
            found.append(layer.fault("lost", says, pairs, repair, shows))
    return found


def _positions(subject: Subject, claim: Claim, seen: Seen, layer: int) -> Iterator[Fault]:
    if not differing(seen.told, claim.told):
        return
    assert claim.told is not None
    yield Fault(
        "position",
        f"its attention has {_KINDS[seen.told.kind]}; declared: {_KINDS[claim.told]}",
        (layer,),
        seen.name,
        None,
        1.0,
        swapped_tokens(subject, subject.draw(), seen.name, claim.told == "none"),
        "compare the config's list of layers without positions (no_rope_layers and the like)",
    )


def _undeclared(
    subject: Subject, claims: Claims, seen: Seen, which: Sequence[int | None], every: list[Seen]
) -> Iterator[Fault]:
    """A module that moves content between tokens and about which the declaration says nothing: a
    fault where it gets content from more tokens than its layer, or the model, may."""
    block = core(seen.name)[:1]
    number = next(
        (one for one, other in zip(which, every, strict=True)
         if one is not None and block and core(other.name)[:1] == block),
        None,
    )  # fmt: skip
    if number is None and not claims.causal:
        return
    claim = Claim("", Causal() if claims.causal else Full(), why="the model as a whole")
    if number is not None and claims.layers[number].pattern is not None:
        claim = claims.layers[number]
    layer = Layer(
        subject, claims.causal is True, claim, seen, None if number is None else number + 1
    )
    yield from _beyond(layer)


def _without_layers(claims: Claims, missing: list[int]) -> Iterator[Fault]:
    """Layers that are declared where nothing was seen to move content."""
    for number in missing:
        claim = claims.layers[number]
        if claim.module and claim.pattern is not None and mixes(claim.pattern.mask(12).numpy()):
            says = f"it moves nothing between tokens; declared: {claim.text}"
            yield Fault("lost", says, (number + 1,), claim.module, size=1.0)


def _uncounted(claims: Claims, seen: list[Seen]) -> Note:
    names = [one.name or "the model itself" for one in seen[:_SHOWN]]
    names += ["..."] * (len(seen) > _SHOWN)
    return Note(
        f"{len(claims.layers)} layers are declared, {len(seen)} were seen to move content between "
        f"tokens ({', '.join(names)}): single layers were not compared"
    )


def together(faults: Sequence[Fault]) -> list[Fault]:
    """Faults that differ in nothing but the layer and the pair, as one."""
    groups: dict[tuple[str, str, str], list[Fault]] = {}
    for fault in faults:
        says, _, declared = fault.says.partition("; declared: ")
        groups.setdefault((fault.rule, re.sub(r"\d+", "", says), declared), []).append(fault)
    return [
        replace(group[0], layers=tuple(sorted({one for fault in group for one in fault.layers})))
        for group in groups.values()
    ]
