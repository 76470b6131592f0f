"""Theorem 1 carried out by the layers of a design: places are computed, then x is gathered.

What happens between two layers is a function of a token's own features, looked up in
tables that are made once, on a sequence of zeros: nobody knows a place but by what heads tell.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import one_hot, pad

import anyseq as aq
from anyseq.base import generator
from anyseq.positions import Place, Position
from anyseq.probability import Hardmax
from verdicts.heads import Heads
from verdicts.mixing import SUMS, ByOffset, Mixing, Singling, Summing, telling

SAME, DIFFERENT = 1e-10, 1e-8  # features of size 1 are one or the other
_SHARP = 80.0  # by how much the score of a wanted key leads


class Gathering:
    """A network of the design, from sequences (B, n) to (B, n, n): what each token holds of x, NaN
    where it holds nothing.

    `rounds` layers tell every token its place, then `layers` more pass x on; layer t uses pattern t
    of the cycle.
    """

    def __init__(self, design: aq.Design, rounds: int, layers: int) -> None:
        self.design, self.size = design, design.tokens + design.bos
        code, zeros = _start(design)[None], torch.zeros(1, self.size, 1, dtype=torch.float64)
        self.rounds = []
        for layer in range(rounds):
            told_by = _telling(design, layer, code.shape[-1])
            seen = _seen(told_by, zeros, code)
            self.rounds.append((told_by, distinct(seen[0])))
            code = _looked_up(seen, self.rounds[-1][1])
        self.places = code[0]
        held = torch.eye(self.size, dtype=torch.bool)
        self.layers = []
        for layer in range(rounds, rounds + layers):
            fetching = _fetching(design, layer, self.places)
            if isinstance(fetching, Summing):
                take, held = fetching.taken(held)
            else:
                take, held = _taken(design, layer, held)
            self.layers.append((fetching, take))
        self.held = held

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """(B, n) -> (B, n, n)."""
        bos = int(self.design.bos)
        content = pad(x, (bos, 0))[..., None]
        code = _start(self.design).expand(len(x), -1, -1)
        for told_by, table in self.rounds:
            code = _looked_up(_seen(told_by, content, code), table)
        place = torch.cdist(code, self.places.expand_as(code)).argmin(-1)
        assert (place == torch.arange(self.size))[:, bos:].all(), "places are not told apart"
        slots = content * one_hot(place, self.size)
        for fetching, take in self.layers:
            fetched = fetching(torch.cat([slots, code], dim=-1))[..., : self.size]
            slots = slots + (fetched * take[place]).sum(2)
        return slots.masked_fill(~self.held[place], torch.nan)[:, bos:, bos:]


def base_of(position: Position) -> Position:
    """The encoding under URPE, or itself."""
    return position.base if isinstance(position, aq.URPE) else position


def _start(design: aq.Design) -> torch.Tensor:
    """(size, code) what a token is told at the input: its place, or whether it is BOS."""
    size = design.tokens + design.bos
    base = design.input_position
    if isinstance(base, aq.Sinusoidal):
        return base.table(torch.arange(size, dtype=torch.float64), 16)
    told = Place.INPUT in base.acts_in
    colours = torch.arange(size) if told else (torch.arange(size) >= design.bos).long()
    return one_hot(colours, size + 1).double()


def _telling(design: aq.Design, layer: int, code: int) -> Sequence[Heads | Mixing | ByOffset]:
    """Random heads that read the code and not x, or all that another mixer tells: Lemma 3."""
    own = design.layer_cycle[layer % len(design.layer_cycle)]
    if not own.attends:
        return [telling(design, layer, code)]
    rng, base = generator(layer), base_of(own.position)
    if isinstance(base, aq.ALiBi):
        # any slope would do; eight heads have powers of two, with which keys tie exactly
        return [_levelled(design, layer, code, base, rng) for _ in range(32)]
    heads = Heads(design, layer, features=1 + code, heads=48, size=8)
    waves = isinstance(base, aq.Rotary)  # they never tie, and need not
    whole = isinstance(own.probability, Hardmax) and not waves  # ties need whole numbers

    def draw(weight: torch.Tensor) -> None:
        if whole:
            weight.copy_(torch.randint(-1, 2, weight.shape, generator=rng))
        else:
            weight.normal_(generator=rng)

    tables = heads.tables()
    for table in (*tables.values(), *heads.sinks()):
        draw(table)
    for name in ("q", "k"):
        draw(heads.weight(name)[..., 1:])
    heads.weight("v")[..., 1:].normal_(generator=rng)
    # some heads look at places only, and some of these see all scores tie
    heads.weight("k")[:16, :, 1:] = heads.weight("k")[:16, :, 1:2]
    heads.weight("q")[:8] = 0.0
    for name, table in tables.items():
        if len(table) == heads.heads and "gain" not in name:
            table[:8] = 0.0
    return [heads]


def _levelled(
    design: aq.Design, layer: int, code: int, base: aq.ALiBi, rng: torch.Generator
) -> Heads:
    """Heads with ALiBi whose scores of codes make up for some distance, a whole one in every other
    head, so that who wins changes from place to place."""
    heads = Heads(design, layer, features=1 + code, heads=8, size=2)
    slopes = torch.tensor(base.slopes(8), dtype=torch.float64)
    distance = (torch.rand(8, code, generator=rng, dtype=torch.float64) - 0.5) * 2 * code
    distance[::2] = distance[::2].round()
    heads.attention.q_proj.bias.view(8, 2)[:, 0] = 1.0
    heads.weight("k")[:, 0, 1:] = slopes[:, None] * distance
    heads.weight("v")[..., 1:].normal_(generator=rng)
    for table in (*heads.tables().values(), *heads.sinks()):
        table.normal_(generator=rng)
    return heads


def _seen(
    told_by: Sequence[Heads | Mixing | ByOffset], content: torch.Tensor, code: torch.Tensor
) -> torch.Tensor:
    """(B, size, features) a token's code, and what the layer tells it."""
    stream = torch.cat([content, code], dim=-1)
    told = [one(stream if isinstance(one, Heads) else code).flatten(2) for one in told_by]
    return torch.cat([code, *told], dim=-1)


def distinct(features: torch.Tensor) -> torch.Tensor:
    """The different rows; rows are the same or clearly different."""
    apart = torch.cdist(features, features, p=torch.inf)
    assert not ((apart > SAME) & (apart < DIFFERENT)).any()
    return features[(apart < SAME).long().argmax(1).unique()]


def _looked_up(features: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """(B, size, size + 1) the number of each token's row in the table, as a unit vector."""
    apart = torch.cdist(features, table.expand(len(features), -1, -1), p=torch.inf)
    assert apart.amin(-1).max() < SAME
    return one_hot(apart.argmin(-1), features.shape[-2] + 1).double()


def _fetching(
    design: aq.Design, layer: int, places: torch.Tensor
) -> Heads | ByOffset | Singling | Summing:
    """For each token and each pattern of the layer a head whose scores single that token out by its
    code, and bring all of its slots; of other mixers what they have for that."""
    own = design.layer_cycle[layer % len(design.layer_cycle)]
    if isinstance(own.mixer, aq.Convolution | aq.Recurrence):
        return ByOffset(design, layer, len(places) + places.shape[1])
    if isinstance(own.mixer, aq.LinearAttention):
        return Singling(design, layer, places)
    if isinstance(own.mixer, SUMS):
        return Summing(design, layer, places.shape[1])
    size, parts = len(places), len(design.cycle[layer % len(design.cycle)].heads())
    room = max(8, size + size % 2)
    heads = Heads(design, layer, features=size + places.shape[1], heads=size * parts, size=room)
    alike = places @ places.T
    lead = (alike.diagonal()[:, None] - alike).masked_fill(torch.eye(size).bool(), torch.inf)
    # Rotary turns this feature the least
    slow = room // 2 - 1
    heads.attention.q_proj.bias.unflatten(0, (-1, room))[:, slow] = 1.0
    keys = places * (_SHARP / lead.amin(1, keepdim=True))
    heads.weight("k")[:, slow, size:] = keys.repeat_interleave(parts, 0)
    heads.weight("v")[:, :size, :size] = torch.eye(size)
    return heads


def _taken(design: aq.Design, layer: int, held: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(size, heads, size) which slots a token at each place takes over from which head: each that
    it lacks, from the first that has it; and (size, size) what is held then."""
    own = design.layer_cycle[layer % len(design.layer_cycle)]
    if isinstance(own.mixer, aq.Convolution | aq.Recurrence):
        there = ByOffset(design, layer, 1).sees
        offered = (there.double() @ held.double()).bool() & ~held[:, None, :]
    else:
        parts = own.sees.heads()
        sees = torch.stack([part.mask(len(held)) for part in parts], dim=-1).flatten(1)
        offered = sees[:, :, None] & held.repeat_interleave(len(parts), 0) & ~held[:, None, :]
    first = offered & (offered.cumsum(1) == 1)
    return first, held | first.any(1)
