"""Random forgeries of certified results, every hash made to fit, and where to look for their harm.

A forgery changes numbers of the network (single ones, by much or by little; units that nothing
reads; units that cancel, but for a spike or for what float64 loses; units scaled to where numbers
underflow; features and whole layers, in another order), of the claim, of the look-up, or of all of
these. It says at which entries of x its harm would be seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch.nn.functional import pad

from anyseq.construct import Approximation
from anyseq.construct.claims.claim import Claim
from anyseq.construct.tables.fused import CellTable, fused_from
from anyseq.nn import Stack, StackShape
from construct.forgery import claim_of, network_with, with_terms

Rng = np.random.Generator
Weights = dict[str, torch.Tensor]

HALVES = {
    0: ("q_weight", "q_bias", "k_weight", "v_weight", "o_weight", "sink"),
    1: ("up_weight", "up_bias", "down_weight", "down_bias"),
}


@dataclass
class Forgery:
    """What is changed, and entries of x to look at."""

    weights: Weights
    shape: StackShape
    claim: Claim
    look_up: dict[str, Any] = field(default_factory=dict)
    aims: list[float] = field(default_factory=list)
    moved: float = 0.0  # by how much values of the table are other ones
    steps: list[str] = field(default_factory=list)


def forgery(result: Approximation, rng: Rng) -> Forgery:
    """One change, or two or three."""
    tensors = {name: tensor.clone() for name, tensor in result.model.state_dict().items()}
    found = Forgery(tensors, result.size, claim_of(result))
    for way in rng.choice(len(WAYS), rng.choice([1, 1, 1, 2, 3])):
        found.steps.append(WAYS[way].__name__)
        WAYS[way](found, result, rng)
    return found


def single_numbers(found: Forgery, result: Approximation, rng: Rng) -> None:
    """Some entries of one tensor, used ones or any."""
    names = [name for name in found.weights if name != "halves" and found.weights[name].numel()]
    flat = found.weights[str(rng.choice(names))].view(-1)
    used = flat.nonzero().flatten().numpy()
    for _ in range(rng.integers(1, 4)):
        entry = (
            int(rng.choice(used)) if len(used) and rng.random() < 0.7 else rng.integers(len(flat))
        )
        flat[entry] = _other_number(float(flat[entry]), rng)


def _other_number(value: float, rng: Rng) -> float:
    large = float(2.0 ** rng.integers(1, 1000)) * rng.choice([-1.0, 1.0])
    return float(
        rng.choice(
            [
                -value, 0.0, value + 1, value - 1, 2 * value, value / 2, value * (1 + 1e-6), large,
                value + 2.0 ** -rng.integers(1, 40), np.nextafter(value, math.inf), 5e-324,
                value + 5e-324, 1 / large, math.inf, math.nan, value + 64 * np.spacing(value),
            ]
        )
    )  # fmt: skip


def dead_unit(found: Forgery, result: Approximation, rng: Rng) -> None:
    """A unit that nothing reads, of any size."""
    row, unit = _new_unit(found, rng)
    width = found.shape.width
    size = float(2.0 ** rng.integers(-60, 70))
    found.weights["up_bias"][row, unit] = size * rng.choice([-1.0, 1.0])
    if rng.random() < 0.5:
        found.weights["up_weight"][row, unit, rng.integers(width)] = size


def spike(found: Forgery, result: Approximation, rng: Rng) -> None:
    """Three units with s(t - c + h), s(t - c), s(t - c - h), mostly in the last layer: 0 outside
    [c - h, c + h], which is inside a cell, and in c a number. Often beside a large unit that
    nothing reads, and with more rounding claimed: both could be an excuse."""
    step, size = result.facts.step, found.claim.upper
    feature, into = rng.integers(found.shape.width), rng.integers(result.size.out_features)
    anywhere = rng.random() < 0.4  # in what may be seen later, or taken for nothing
    into = rng.integers(found.shape.width) if anywhere else into
    half, slope = step * 2.0 ** -rng.integers(4, 12), 2.0 ** rng.integers(-24, 4)
    height = 4 * size * 2.0 ** rng.integers(0, 4)
    centre = step * (rng.integers(round(1 / step)) + rng.choice([0.25, 0.3, 0.5]))
    row = len(found.weights["up_bias"]) - 1 if rng.random() < 0.8 - 0.6 * anywhere else None
    for place, factor in ((-half, 1.0), (0.0, -2.0), (half, 1.0)):
        row, unit = _new_unit(found, rng, row)
        found.weights["up_weight"][row, unit, feature] = slope
        found.weights["up_bias"][row, unit] = -slope * (centre + place)
        found.weights["down_weight"][row, into, unit] = factor * height / (slope * half)
    found.aims += [centre + part * half for part in (-0.5, 0.0, 0.5)]
    if rng.random() < 0.5:
        row, unit = _new_unit(found, rng, row)
        found.weights["up_bias"][row, unit] = 2.0 ** rng.integers(20, 70)
    terms = {name: value for name, _, value in found.claim.terms}
    if rng.random() < 0.5 and terms.get("rounding"):
        found.claim = with_terms(found.claim, rounding=0.1 * size / terms["rounding"])


def lossy_pair(found: Forgery, result: Approximation, rng: Rng) -> None:
    """Units that cancel but for rounding: C ReLU(3t - 3k) - 3C ReLU(t - k), which is 0; or C and -C
    beside what a layer adds."""
    row, one = _new_unit(found, rng)
    row, other = _new_unit(found, rng, row) if rng.random() < 0.9 else (row, one)
    feature, into = rng.integers(found.shape.width, size=2).tolist()
    size, step = float(2.0 ** rng.integers(20, 70)), result.facts.step
    for unit, factor in ((one, 3.0), (other, 1.0)):
        _fill(
            found, row, unit, feature, factor / step, factor * (1 - 1 / step) * (rng.random() < 0.9)
        )
        found.weights["down_weight"][row, into, unit] = size * (4 - factor) * (2 - factor)
    if rng.random() < 0.5:
        for unit, sign in ((one, 1.0), (other, -1.0)):
            _fill(found, row, unit, feature, 0.0, 1.0)
            found.weights["down_weight"][row, into, unit] = sign * size
    found.aims += (1 - step * rng.random(4)).tolist()


def _fill(found: Forgery, row: int, unit: int, feature: int, slope: float, shift: float) -> None:
    found.weights["up_weight"][row, unit] = 0.0
    found.weights["up_weight"][row, unit, feature] = slope
    found.weights["up_bias"][row, unit] = shift


def scaled_unit(found: Forgery, result: Approximation, rng: Rng) -> None:
    """A unit's input times a power of two, and its output by the same: down to where it underflows,
    up to where it overflows."""
    row = int(rng.integers(len(found.weights["up_bias"])))
    unit = int(rng.integers(found.weights["up_bias"].shape[1]))
    power = float(2.0 ** rng.choice([-1060, -1000, -500, -60, -1, 1, 60, 390, 500]))
    found.weights["up_weight"][row, unit] *= power
    found.weights["up_bias"][row, unit] *= power
    found.weights["down_weight"][row, :, unit] *= min(1 / power, 2.0**1000)


def other_features(found: Forgery, result: Approximation, rng: Rng) -> None:
    """Features that are neither input nor output change places: everywhere, which changes nothing,
    or in all tensors but one."""
    first = max(result.size.in_features, result.size.out_features)
    order = np.arange(found.shape.width)
    order[first:] = first + rng.permutation(len(order) - first)
    last = ["q_weight", "k_weight", "v_weight", "up_weight", "down_bias"]
    last += [name for name in ("position", "constant", "bos") if name in found.weights]
    names = [*last, "o_weight", "down_weight"]
    kept = str(rng.choice(names)) if rng.random() < 0.3 else ""
    for name in names:
        if name != kept:
            tensor = found.weights[name]
            found.weights[name] = (tensor[..., order] if name in last else tensor[:, order]).clone()


def permuted_layers(found: Forgery, result: Approximation, rng: Rng) -> None:
    """A stretch of feed-forward halves in any order, or back to front."""
    rows = len(found.weights["up_bias"])
    start = int(rng.integers(rows))
    stop = min(rows, start + int(rng.integers(2, 9)))
    order = np.arange(rows)
    order[start:stop] = (
        order[start:stop][::-1] if rng.random() < 0.5 else rng.permutation(order[start:stop])
    )
    for name in HALVES[1]:
        found.weights[name] = found.weights[name][order].clone()


def other_look_up(found: Forgery, result: Approximation, rng: Rng) -> None:
    """Narrower ramps, an end further out, another order of the tokens, with what they make of the
    measure; or other numbers beside the values."""
    facts: dict[str, Any] = {**result.fused.facts(), **result.fused.tensors()}
    name = str(rng.choice([key for key in facts if key not in ("kind", "positions", "values")]))
    value = facts[name]
    if name == "offsets":
        found.look_up[name] = rng.permutation(value).tolist()
    elif isinstance(value, torch.Tensor):
        other, flat = value.clone(), value.clone().view(-1)
        if len(flat):
            at = rng.integers(len(flat))
            flat[at] = flat[at] * float(rng.choice([0.5, 2.0])) + float(rng.integers(0, 2))
            other = flat.view(value.shape)
        found.look_up[name] = other
    else:
        found.look_up[name] = type(value)(value * rng.choice([0.5, 2.0, 0.0, 1 + 2.0**-30]))
    if name in ("ramp", "end") and "ramps" in {term for term, _, _ in found.claim.terms}:
        measure, share = _ramps(result), _ramps(result, found.look_up)
        if 0 < share < 1:
            found.claim = with_terms(found.claim, ramps=(share / measure) ** (1 / found.claim.p))
            more = found.claim.exceptional - measure + share
            found.claim = replace(found.claim, exceptional=max(0.0, more))


def late_shift(found: Forgery, result: Approximation, rng: Rng) -> None:
    """Attention after all else, of two heads that cancel but where a token is the number that the
    last layer cuts others off at."""
    names = ("q_weight", "q_bias", "k_weight", "v_weight", "o_weight")
    if found.shape.heads != 2 or found.shape.head_dim != 1 or found.shape.inside:
        return
    new_half(found, result, rng, half=0)
    query, bias, key, value, out = (found.weights[name][-1] for name in names)
    for part in (query, bias, key, value, out):
        part.zero_()
    sharp, width = 2.0**40, 2.0**-20
    at = -float(found.weights["up_bias"][-1].min()) * rng.choice([-1.0, 1.0])
    query[:, 0], key[:, 0], value[:, 0] = sharp, 1.0, 1.0
    bias[:] = -sharp * torch.tensor([at - width, at + width])
    out[0] = 2.0**20 * torch.tensor([1.0, -1.0])


def _new_unit(found: Forgery, rng: Rng, row: int | None = None) -> tuple[int, int]:
    """A row and a unit in it that is there for nothing; a new one, if need be."""
    row = int(rng.integers(len(found.weights["up_bias"]))) if row is None else row
    quiet = (found.weights["down_weight"][row] == 0).all(0) & (found.weights["up_bias"][row] == 0)
    quiet &= (found.weights["up_weight"][row] == 0).all(1)
    if not quiet.any():
        more = {"up_weight": (0, 0, 0, 1), "up_bias": (0, 1), "down_weight": (0, 1)}
        for name, size in more.items():
            found.weights[name] = pad(found.weights[name], size)
        found.shape = replace(found.shape, hidden=found.shape.hidden + 1)
        return row, found.shape.hidden - 1
    return row, int(rng.choice(quiet.nonzero().flatten().numpy()))


def swapped_layers(found: Forgery, result: Approximation, rng: Rng) -> None:
    """Two layers of one kind, or one for the other."""
    names = [name for name in HALVES[int(rng.integers(2))] if name in found.weights]
    rows = len(found.weights[names[0]])
    if rows > 1:
        one, other = rng.choice(rows, 2, replace=False).tolist()
        for name in names:
            tensor = found.weights[name]
            kept = tensor[one].clone()
            tensor[one] = tensor[other]
            if rng.random() < 0.9:
                tensor[other] = kept


def moved_half(found: Forgery, result: Approximation, rng: Rng) -> None:
    """A half in another layer: earlier or later in the network."""
    half = int(rng.integers(2))
    column = found.weights["halves"][:, half]
    there = (column >= 0).nonzero().flatten().numpy()
    where = sorted(rng.choice(len(column), len(there), replace=False).tolist())
    if len(there) > 3:  # all but one where they were
        where = sorted({*rng.permutation(there)[1:].tolist()})
        free = [place for place in range(len(column)) if place not in where]
        where = sorted([*where, int(rng.choice(free))])
    column[:] = -1
    column[where] = torch.arange(len(where), dtype=column.dtype)


def new_half(found: Forgery, result: Approximation, rng: Rng, half: int | None = None) -> None:
    """One more half, at the end: what the last one does once more, or nothing at all."""
    half = int(rng.integers(2)) if half is None else half
    names = [
        name for name in found.shape.tensors() if name in HALVES[half] or name[:7] == "inside_"
    ]
    names = [name for name in names if half == 0 or name in HALVES[1]]
    rows = len(found.weights[HALVES[half][0]])
    factor = float(rng.choice([0.0, 1.0, 2.0**60]))
    for name in names:
        tensor = found.weights[name]
        found.weights[name] = torch.cat([tensor, factor * tensor[-1:]])
    kind = ("attention_layers", "feedforward_layers")[half]
    halves = torch.full((1, 2), -1, dtype=found.weights["halves"].dtype)
    halves[0, half] = rows
    found.weights["halves"] = torch.cat([found.weights["halves"], halves])
    more: dict[str, Any] = {kind: rows + 1}
    found.shape = replace(found.shape, layers=found.shape.layers + 1, **more)


def other_terms(found: Forgery, result: Approximation, rng: Rng) -> None:
    """Parts of the error are less, or more, and their sum fits."""
    names = [name for name, _, _ in found.claim.terms]
    name = str(rng.choice(names))
    found.claim = with_terms(found.claim, **{name: float(rng.choice([0.5, 0.99, 1e3, 1e10, 1e12]))})


def other_constants(found: Forgery, result: Approximation, rng: Rng) -> None:
    """What f is said to do at most: more than it does."""
    factor = float(rng.choice([1.0 + 1e-9, 2.0, 1e6]))
    known = [
        name
        for name in ("lipschitz", "curvature", "bound")
        if getattr(found.claim, name) is not None and found.claim.per_feature is None
    ]
    if known:
        name = str(rng.choice(known))
        more: dict[str, Any] = {name: getattr(found.claim, name) * factor}
        found.claim = replace(found.claim, **more)


def other_values(found: Forgery, result: Approximation, rng: Rng) -> None:
    """A number of the table, and with luck of the weights that hold it."""
    values = found.look_up.get("values", result.fused.tensors()["values"]).clone()
    flat = values.view(-1)
    entry = rng.integers(len(flat))
    old = float(flat[entry])
    new = old + float(rng.choice([1e-14, 1e-9, 1e-3, 1.0, -1.0]))
    flat[entry] = new
    found.look_up["values"] = values
    found.moved += abs(new - old)
    for tensor in found.weights.values():
        if tensor.dtype == torch.float64 and rng.random() < 0.5:
            tensor[tensor == old] = new


WAYS: list[Callable[[Forgery, Approximation, Rng], None]] = [
    single_numbers, single_numbers, dead_unit, spike, spike, lossy_pair, scaled_unit, late_shift,
    swapped_layers, permuted_layers, other_features, moved_half, new_half, other_terms,
    other_constants, other_values, other_look_up,
]  # fmt: skip


def harm(f: Any, result: Approximation, found: Forgery, rng: Rng) -> float:
    """By how much the forged network breaks what is claimed, at the worst input found; 0 if not.

    In sup norm |f - T| is at most `upper`. In L^p T is the look-up where this speaks, and elsewhere
    no larger than what the ramps are charged for.
    """
    network = network_with(result, found.weights, shape=found.shape)
    with torch.no_grad():
        worst = torch.zeros(1, result.size.tokens, result.size.in_features).double()
        excess = 0.0
        for x in _hunt(result, found, rng):
            over = _excess(f, result, found, network, x)
            if float(over.max()) >= excess:
                excess, worst = float(over.max()), x[over.argmax()][None]
        for scale in range(2, 40, 2):
            near = worst + 2.0**-scale * torch.from_numpy(
                rng.uniform(-1, 1, (32, *worst.shape[1:]))
            )
            over = _excess(f, result, found, network, near.clamp(0, 1))
            if float(over.max()) > excess:
                excess, worst = float(over.max()), near.clamp(0, 1)[over.argmax()][None]
    return excess


def _excess(
    f: Any, result: Approximation, found: Forgery, network: Stack, x: torch.Tensor
) -> torch.Tensor:
    """(batch,) what |f - T| or |T| is beyond its bound; NaN is infinite."""
    claim = found.claim
    out = network(x)
    if claim.norm == "sup":
        apart: torch.Tensor = (out - f(x)).abs().flatten(1).amax(1)
        return (apart - claim.upper * (1 + 1e-9) - found.moved).nan_to_num(nan=math.inf)
    terms = {name: value for name, _, value in claim.terms}
    factor = (claim.tokens * claim.out_features) ** (1 / claim.p)
    facts = result.fused.facts() | result.fused.tensors() | found.look_up
    look_up = fused_from(facts, {})
    spoken, over = look_up.covers(x), torch.zeros(len(x), dtype=torch.float64)
    off = (out[spoken] - look_up(x[spoken])).abs().flatten(1).amax(1)
    over[spoken] = off - found.moved - terms.get("rounding", 0.0) / factor - 1e-9
    if "ramps" in terms:
        share = _ramps(result, found.look_up)
        reach = terms["ramps"] / factor / share ** (1 / claim.p) - claim.bound
        over = torch.maximum(over, out.abs().flatten(1).amax(1) - reach * (1 + 1e-9) - found.moved)
    return over.nan_to_num(nan=math.inf)


def _ramps(result: Approximation, other: dict[str, Any] | None = None) -> float:
    """The measure of inputs on ramps, which every cell of "yun" has, and all but the last one of
    "boltzmann"; the first has an end, too."""
    facts = result.fused.facts() | result.fused.tensors() | (other or {})
    form: Any = fused_from(facts, {})
    if isinstance(form, CellTable):
        share = form.ramp * form.steps + max(0.0, 1 - form.end)
    else:
        share = form.ramp * (form.steps - 1)
    return float(1 - (1 - share) ** (result.size.tokens * result.size.in_features))


def _hunt(result: Approximation, found: Forgery, rng: Rng) -> Iterator[torch.Tensor]:
    """Anywhere; at nodes and between them; on ramps; where the forgery aims at."""
    shape = (64, result.size.tokens, result.size.in_features)
    anywhere = rng.random(shape)
    step = result.facts.step
    yield torch.from_numpy(anywhere)
    cell = np.floor(anywhere / step) * step
    for part in (0.0, 0.25, 0.3, 0.5, 1.0):
        yield torch.from_numpy(np.clip(cell + part * step, 0, 1))
    ramp = getattr(result.fused, "ramp", step / 16)
    for part in (0.25, 0.5, 0.9):
        on = rng.random(shape) < 0.5
        yield torch.from_numpy(np.where(on, np.clip(cell + step - part * ramp, 0, 1), anywhere))
    for aim in found.aims:
        on = rng.random(shape) < 0.6
        yield torch.from_numpy(np.where(on, np.clip(aim, 0, 1), anywhere))
