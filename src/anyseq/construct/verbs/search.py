"""The seen side of the error: inputs where the approximation is worst.

Everything is evaluated through the fused form; inputs it does not cover (ramps) count as error 0,
which keeps a lower bound a lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from anyseq.base import generator, uniform
from anyseq.construct.counting.lattice import lattice
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.error import SUP
from anyseq.construct.request.target import Target
from anyseq.construct.tables.fused import Fused

LEVEL = 0.99  # of the confidence limit in L^p

_STARTS = 8192  # random inputs
_LATTICE = 8192  # at most so many cell corners and centres
_CLIMBERS = 64
_CLIMBS = 24
SAMPLES = 1 << 15  # in L^p, for the pilot and again for the estimate

_Errors = Callable[[torch.Tensor], torch.Tensor]  # (B, D) -> (B, entries), absolute


@dataclass(frozen=True)
class Seen:
    """lower, estimate: of the error in the given norm; the same in sup norm.
    likely: the ends of an interval that holds it, at LEVEL, if means are normally distributed.
    at, at_error: the worst input and its largest entry."""

    lower: float
    estimate: float
    likely: tuple[float, float]
    level: float | None
    at: torch.Tensor
    at_error: float


def search(target: Target, fused: Fused, ask: Ask, step: float, seed: int) -> Seen:
    """The worst that random inputs, cell corners and centres, and ascent from them can find."""
    rng = generator(seed)
    shape = (-1, ask.design.tokens, ask.features)

    def errors(points: torch.Tensor) -> torch.Tensor:
        x = points.view(shape)
        gap = torch.zeros(len(x), ask.entries, dtype=torch.float64)
        covered = fused.covers(x)
        gap[covered] = (target(x[covered]) - fused(x[covered])).abs().flatten(1)
        return gap

    starts = torch.cat(
        [uniform(_STARTS, ask.axes, rng=rng), _corners_and_centres(ask.axes, step, rng)]
    )
    at, at_error = _climb(errors, starts, step)
    if ask.norm == SUP:
        return Seen(at_error, at_error, (at_error, math.inf), None, at.view(shape[1:]), at_error)
    lower, estimate, likely = _mean_power(errors, ask, rng)
    return Seen(lower, estimate, likely, LEVEL, at.view(shape[1:]), at_error)


def _corners_and_centres(axes: int, step: float, rng: torch.Generator) -> torch.Tensor:
    """Cell corners (a little inside the cell above, where a jump would be seen) and centres."""
    steps = round(1 / step)
    if steps**axes * 2 <= _LATTICE:
        cells = lattice(steps, axes).double()
    else:
        cells = (uniform(_LATTICE // 2, axes, rng=rng) * steps).floor()
    return torch.cat([cells * step, (cells + 1) * step * (1 - 2.0**-30), (cells + 0.5) * step])


def _climb(errors: _Errors, starts: torch.Tensor, step: float) -> tuple[torch.Tensor, float]:
    """Gradient ascent on the largest entry, by differences, so that any f will do."""
    start_errors = errors(starts).amax(1)
    best = start_errors.topk(min(_CLIMBERS, len(starts)))
    x, value = starts[best.indices], best.values
    axes = x.shape[1]
    probe = step * 2.0**-8
    strides = step * torch.tensor([0.5, 0.125, 2.0**-5, 2.0**-8], dtype=x.dtype)
    for _ in range(_CLIMBS):
        moved = (x[:, None] + probe * torch.eye(axes, dtype=x.dtype)).clamp(max=1.0)
        slope = errors(moved.flatten(0, 1)).amax(1).view(-1, axes) - value[:, None]
        tries = (x[:, None] + strides[:, None] * slope.sign()[:, None]).clamp(0.0, 1.0)
        reached = errors(tries.flatten(0, 1)).amax(1).view(-1, len(strides))
        pick = reached.argmax(1)
        gain = reached.amax(1) > value
        rows = torch.arange(len(x))
        x = torch.where(gain[:, None], tries[rows, pick], x)
        value = torch.where(gain, reached[rows, pick], value)
    top = int(value.argmax())
    return x[top], float(value[top])


def _mean_power(
    errors: _Errors, ask: Ask, rng: torch.Generator
) -> tuple[float, float, tuple[float, float]]:
    """(lower, estimate, likely) of d_p; lower is right with probability at least LEVEL.

    Z = mean|f - T|^p >= 0, over the entries, has mean (d_p/spread)^p >= E min(Z, b) for any b. b is
    the largest Z of a pilot sample; on a second, independent sample the empirical Bernstein bound
    of Maurer and Pontil (2009), for N numbers in [0, b] with variance V,

        mean - sqrt(2 V ln(2/α)/N) - 7 b ln(2/α) / (3(N-1)),    α = 1 - LEVEL,

    is below E min(Z, b) with probability at least LEVEL. The ends of `likely` are 2.58 standard
    errors from the mean of the second sample.
    """

    pilot, fresh = (errors(uniform(SAMPLES, ask.axes, rng=rng)) for _ in range(2))
    unit = max(float(pilot.max()), float(fresh.max()))  # so that no power under- or overflows
    if unit == 0.0:
        return 0.0, 0.0, (0.0, 0.0)
    powers = [((part / unit) ** ask.p).mean(1) for part in (pilot, fresh)]
    cap = float(powers[0].max())
    sample = powers[1].clamp(max=cap)
    log_term = math.log(2 / (1 - LEVEL))
    deviation = math.sqrt(2 * float(sample.var()) * log_term / SAMPLES)
    lower = float(sample.mean()) - deviation - 7 * cap * log_term / (3 * (SAMPLES - 1))
    middle, width = float(powers[1].mean()), 2.58 * float(powers[1].std()) / math.sqrt(SAMPLES)
    lower, estimate, low, high = (
        float(ask.spread * unit * max(power, 0.0) ** (1 / ask.p))
        for power in (lower, middle, middle - width, middle + width)
    )
    return lower, estimate, (low, high)
