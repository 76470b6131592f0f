"""The cheapest changes that make a design universal, each checked before it is offered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

from anyseq.base import OutOfTime, check_time, layers_text
from anyseq.design import Design, Layer
from anyseq.graph import TooManyEdges, connections_of, reach
from anyseq.patterns import Composite, Global, Intersection, Pattern, Union, Window
from anyseq.positions import URPE, Absolute, NoPosition, Place
from anyseq.verdicts.keys import keys_kept
from anyseq.verdicts.verdict import Fix, Verdict, met

_OFFERED = 5  # so many at most
_MOST_CONNECTIONS = 1 << 24  # of a window, where they are followed one by one

Check = Callable[[Design, str, str], Verdict]


@dataclass(frozen=True)
class _Change:
    """A change of a design. rank: cheaper first, among changes that cost no connections."""

    says: str
    parameters: str
    rank: int
    to: Callable[[Design], Design]


def fixes(
    design: Design, norm: str, target: str, check: Check, meets: bool
) -> tuple[tuple[Fix, ...], bool]:
    """The changes that make the design universal, those with the fewest new connections first; and
    whether there was time to try all. meets: whether the design as it is has all the required
    reach.

    One change at a time; only if none is enough, a change of patterns together with one of
    positions.
    """
    found: list[tuple[int, int, Fix]] = []
    try:
        connecting = list(_connecting(design, norm, target, check))
        knowing = [*_knowing(design), *_other(design)]
        alone = [(change,) for change in (*connecting, *knowing)]
        _try(design, norm, target, check, alone, found, meets)
        if not found:
            pairs = (
                (other, change)
                for change in knowing
                for other in _connecting(change.to(design), norm, target, check)
            )
            _try(design, norm, target, check, pairs, found, meets)
        complete = True
    except OutOfTime:
        complete = False
    cheapest = sorted(found, key=lambda one: one[:2])
    return tuple(fix for _, _, fix in cheapest[:_OFFERED]), complete


def _try(
    design: Design,
    norm: str,
    target: str,
    check: Check,
    changes: Iterable[tuple[_Change, ...]],
    found: list[tuple[int, int, Fix]],
    meets: bool,
) -> None:
    """Add those that work, with their connections and rank."""
    before = _a_layer(connections_of(design))
    for parts in changes:
        check_time()
        changed = design
        for part in reversed(parts):  # of a pair, what tokens know comes first
            changed = part.to(changed)
        try:
            if changed == design or not (meets or met(reach(changed, _wanted(target)), changed)):
                continue  # who meets whom is quick to see
            verdict = check(changed, norm, target)
        except TooManyEdges:
            continue
        if not verdict.universal or verdict.reach is None:
            continue
        connections = _a_layer(verdict.reach.connections) - before
        says = " and ".join(part.says for part in parts)
        costs = [part.parameters for part in parts if part.parameters]
        parameters = "; ".join(costs) or "no new parameters"
        fix = Fix(says, changed, connections, parameters, keys_kept(changed))
        found.append((connections, sum(part.rank for part in parts), fix))
    check_time()  # a verdict that was cut short is no refusal


def _wanted(target: str) -> str:
    """Which pairs of tokens must be reached."""
    return "causal" if target == "causal" else "all"


def _connecting(design: Design, norm: str, target: str, check: Check) -> Iterator[_Change]:
    """Changes of patterns, and of depth."""
    if design.depth is not None:
        proof = check(replace(design, depth=None), norm, target).certificate
        if proof is not None and proof.kind == "gather":
            depth = max(1, proof.rounds + proof.layers)
            more = depth - design.depth
            if more > 0:
                layers = layers_text(more, "more ")
                deeper = partial(replace, depth=depth)
                yield _Change(f"make it {depth} layers deep", layers, 5 + more, deeper)
    if design.tokens == 1:
        return
    if target != "causal":
        hub = Global((int(design.bos),))  # BOS, if any, is at 0
        everywhere = partial(_patterned, change=lambda pattern: pattern | hub)
        yield _Change("make token 0 global in every layer", "", 1, everywhere)
        second = partial(_followed_by, pattern=hub | Window(1))
        says = "alternate with a layer of neighbours and token 0 as a hub"
        yield _Change(says, "", 2, second)
    depth = design.depth or 1
    for radius in sorted({ceil((design.tokens - 1) / depth), 1}):
        wider = partial(_patterned, change=partial(_widened, radius=radius))
        if wider(design) != design and _is_followed(wider(design), radius * design.tokens):
            yield _Change(f"widen the window to {radius}", "", 3, wider)


def _knowing(design: Design) -> Iterator[_Change]:
    """Changes of positions."""
    inside = [layer.position for layer in design.layer_cycle if layer.attends]
    if Place.INPUT not in design.input_position.acts_in:
        alone = design.layers is None
        instead = " instead" * (alone and design.position != NoPosition())
        yield _Change(
            f"absolute positions{instead}" if alone else "add absolute positions at the input",
            f"{design.tokens:,} vectors of the model's width",
            3,
            partial(replace, position=Absolute()),
        )
    if inside and not any(Place.GAIN in position.acts_in for position in inside):
        yield _Change(
            "add URPE gains",
            f"{2 * design.size - 1:,} numbers a head, shared by the layers",
            2,
            _with_gains,
        )
    lengths = {pattern.natural_length for pattern in design.cycle}
    lengths |= {position.natural_length for position in inside}
    if not design.bos and lengths == {None}:
        yield _Change(
            "prepend a BOS token", "1 vector of the model's width", 1, partial(replace, bos=True)
        )


def _other(design: Design) -> Iterator[_Change]:
    """Changes of the rest of a block."""
    if not all(layer.feedforward for layer in design.layer_cycle):
        fed = partial(_layered, change=partial(replace, feedforward=True))
        yield _Change("add feed-forward layers", "a feed-forward layer a block", 1, fed)
    if design.final_norm is not None:
        yield _Change("drop the final norm, or put a linear layer after it",
                      "", 1, partial(replace, final_norm=None))  # fmt: skip


def _layered(design: Design, change: Callable[[Layer], Layer]) -> Design:
    return design.with_layers([change(layer) for layer in design.layer_cycle])


def _patterned(design: Design, change: Callable[[Pattern], Pattern]) -> Design:
    """Other patterns, in the layers that have one."""
    return _layered(
        design,
        lambda layer: replace(layer, pattern=change(layer.sees)) if layer.attends else layer,
    )


def _followed_by(design: Design, pattern: Pattern) -> Design:
    """One more layer, like the last one that attends."""
    layers = design.layer_cycle
    like = next((layer for layer in reversed(layers) if layer.attends), Layer())
    return design.with_layers((*layers, replace(like, pattern=pattern)))


def _with_gains(design: Design) -> Design:
    return _layered(
        design,
        lambda layer: replace(layer, position=URPE(layer.position)) if layer.attends else layer,
    )


def _is_followed(design: Design, connections: int) -> bool:
    """Whether a design is cheap to judge: its patterns depend on i - j alone, or are sparse."""
    by_offsets = all(pattern.offsets(design.size) is not None for pattern in design.cycle)
    return by_offsets or connections <= _MOST_CONNECTIONS


def _a_layer(connections: Sequence[int]) -> int:
    """How many a layer has, on average over the cycle."""
    return ceil(sum(connections) / len(connections))


def _widened(pattern: Pattern, radius: int) -> Pattern:
    """The same with every window in it at least that wide; one that reaches to one side only, on
    that side."""
    if isinstance(pattern, Window):
        sides = pattern.before, pattern.after
        one_sided = 0 in sides and any(sides)
        return Window(*(0 if one_sided and not side else max(radius, side) for side in sides))
    if isinstance(pattern, Union | Intersection):
        return type(pattern)(tuple(_widened(part, radius) for part in pattern.parts))
    if isinstance(pattern, Composite) and hasattr(pattern, "radius"):
        return replace(pattern, radius=max(radius, pattern.radius))  # type: ignore[type-var]
    return pattern
