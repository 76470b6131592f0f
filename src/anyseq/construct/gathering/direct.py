"""Gathering in as few layers as Theorem 1 needs: nothing but attention in the last of them.

The output of the last attention half is not sorted: `Reader` says, for each token, where it finds
every x_j, and how it gets its own position; the feed-forward half of that very block reads it
there. Before the last hop, each half takes what its own block's attention brought: a round of
positions, or a hop of slots, is one block. In the first hop heads read x itself, which stays where
it came. What x, slots and stages held before anything was written (waves) is a known number at each
position, and subtracted by each reader.

In a hop every pattern of a layer has a stage of its own, so that a token takes a slot by whichever
of them attends to its holder. Where there are waves a stage cannot be cleared, and the next hop has
other ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyseq.base import generator
from anyseq.construct.gadgets import Units
from anyseq.construct.gathering.blocks import Blocks
from anyseq.construct.gathering.by_gains import gather_by_gains, sees_wanted
from anyseq.construct.gathering.gather import Gathering
from anyseq.construct.gathering.hop_layer import hop_layer
from anyseq.construct.gathering.known import Known, Reader, places
from anyseq.construct.gathering.rounds import find_places_quickly
from anyseq.construct.gathering.schedule import Taking, asked_slots, schedule
from anyseq.design import Design
from anyseq.nn import AttentionLayers, Layers


@dataclass(frozen=True)
class Direct:
    """The layers, the last without a feed-forward half; what each token reads after them; how far
    off that, and its position, may be; and the most ReLUs that one of the halves has."""

    gathering: Gathering
    readers: tuple[Reader, ...]
    off: float
    hidden: int


def gather_directly(design: Design, features: int, first_free: int, wanted: str) -> Direct:
    """first_free: the first feature behind input and output."""
    if sees_wanted(design, wanted):
        heads, layer, vectors, readers, off = gather_by_gains(design, features, first_free)
        return Direct(Gathering(heads, (Layers(attention=layer),), vectors), readers, off, 0)
    known = places(design, features, first_free, wanted)
    heads, space = known.heads, known.space
    blocks = Blocks(space.width, None)  # no half is cut
    gain = heads.shared_gain(generator(0))
    vectors = {} if gain is None else {"gain": gain}
    vectors |= known.vectors
    if not known.told:
        vectors |= find_places_quickly(heads, blocks, space, gain)
    readers = _hops(known, blocks, wanted)
    halves = [run.feedforward.up_bias.shape[1] for run in blocks.runs if run.feedforward]
    gathering = Gathering(heads, tuple(blocks.runs), vectors)
    return Direct(gathering, readers, known.off, max(halves, default=0))


def _hops(known: Known, blocks: Blocks, wanted: str) -> tuple[Reader, ...]:
    """Write the hops; what tokens read after the last."""
    heads, space = known.heads, known.space
    design, bos = heads.design, heads.design.bos
    *before, last = schedule(design, wanted, len(blocks))
    hop = 0
    for takings in before:
        if not takings:
            blocks.wait()
            continue
        units = _taken(known, takings, hop)
        if hop == 0:
            for token in range(design.tokens):
                for f in range(space.features):
                    _take(known, units, token + bos, f, 0.0, space.slot(token, f))
        if not known.waves.any():
            units.clear(space.stages(hop))
        blocks.attend(_hop_layer(known, takings, hop), units)
        hop += 1
    blocks.runs.append(Layers(attention=_hop_layer(known, last, hop)))
    asked = asked_slots(design, wanted)
    return tuple(_reader(known, token, last, hop, asked[token]) for token in range(design.tokens))


def _hop_layer(known: Known, takings: list[Taking], hop: int) -> AttentionLayers:
    space = known.space
    return hop_layer(
        known.heads,
        takings,
        known.forms,
        space.features,
        lambda taking, f: space.start(hop, taking.slot, f),
        lambda taking, f: space.stage(hop, taking.part, taking.slot, f),
        spare=2.0,  # places may be off a little
    )


def _taken(known: Known, takings: list[Taking], hop: int) -> Units:
    units, space = Units(), known.space
    for taking in takings:
        for f in range(space.features):
            stage = space.stage(hop, taking.part, taking.slot, f)
            start = space.start(hop, taking.slot, f)
            for vertex, source in taking.source.items():
                came = float(known.waves[source, start])
                _take(known, units, vertex, stage, came, space.slot(taking.slot, f))
    return units


def _take(known: Known, units: Units, vertex: int, at: int, came: float, into: int) -> None:
    """`into` of this vertex gets what lies `at`, but for what lay there before, and came with it:
    x - 2 Σ p over all other places is x for this vertex, and not above 0 for others."""
    shut = -2.0 * (known.forms.sum(0) - known.forms[vertex])
    read = {f: float(weight) for f, weight in enumerate(shut) if weight}
    read[at] = read.get(at, 0.0) + 1.0
    units.add(read, {into: 1.0}, -came - float(known.waves[vertex, at]))


def _reader(known: Known, token: int, last: list[Taking], hop: int, asked: set[int]) -> Reader:
    space, vertex = known.space, token + known.heads.design.bos
    came = {taking.slot: taking for taking in last if vertex in taking.source}

    def reads(slot: int, f: int) -> tuple[int, float, float] | None:
        if slot not in asked:
            return None
        at, brought = space.slot(slot, f), 0.0
        if slot == token:
            at = f
        elif slot in came:
            taking = came[slot]
            at = space.stage(hop, taking.part, slot, f)
            brought = float(known.waves[taking.source[vertex], space.start(hop, slot, f)])
        return at, 1.0, -brought - float(known.waves[vertex, at])

    slots = [reads(slot, f) for slot in range(space.tokens) for f in range(space.features)]
    others = known.forms.sum(0) - known.forms[vertex]
    return Reader(tuple(slots), others, known.waves[vertex])
