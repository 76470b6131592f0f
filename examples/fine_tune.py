"""A constructed network is an ordinary module: disturb its weights, or train it further.

Two networks for one function, made by "gather" and by "yun": what happens to their error when every
weight is off by a relative 1e-12 to 1e-2, and when Adam trains them on the function itself, in
float64 and in float32.

    python examples/fine_tune.py [--steps 300] [--picture fine_tune.png]
"""

from __future__ import annotations

import argparse
import copy
import math
from collections.abc import Sequence

import torch

import anyseq as aq
from anyseq.base import table
from anyseq.pictures import save
from anyseq.pictures.style import COLOURS, TARGET, figure

METHODS = {"gather": "sup", "yun": "lp"}
NOISE = tuple(10.0**power for power in range(-12, -1, 2))
RATES = (1e-3, 1e-4, 1e-6)

Errors = tuple[float, float]  # mean and largest |f - T| on a grid of inputs


def f(x: torch.Tensor) -> torch.Tensor:
    """Smooth, so that a finer or a better trained network would come closer."""
    return torch.sin(3 * x.cumsum(1))


def constructed(method: str) -> aq.Approximation:
    """2 tokens of 1 feature, on a coarse grid."""
    return aq.approximate(
        f, aq.Design(2), features=1, tol=1.0, lipschitz=6.0, method=method, norm=METHODS[method]
    )


def errors(model: torch.nn.Module, dtype: torch.dtype = torch.float64) -> Errors:
    """Off the grid lines of any construction, where a ramp would be."""
    line = (torch.arange(50, dtype=torch.float64) + 0.37) / 50
    x = torch.cartesian_prod(line, line)[:, :, None]
    with torch.no_grad():
        gap = (model(x.to(dtype)).double() - f(x)).abs()
    return float(gap.mean()), float(gap.max())


def disturbed(model: aq.nn.Stack, size: float) -> aq.nn.Stack:
    """Every weight times 1 + size · (a normal number)."""
    rng = torch.Generator().manual_seed(0)
    other = copy.deepcopy(model)
    with torch.no_grad():
        for weight in other.parameters():
            noise = torch.randn(weight.shape, generator=rng, dtype=weight.dtype)
            weight.mul_(1 + size * noise)
    return other


def trained(model: aq.nn.Stack, dtype: torch.dtype, rate: float, steps: int) -> list[Errors]:
    """The errors before and during training of a copy by Adam on the squared error; infinite at
    the end if numbers became too large on the way."""
    course: list[Errors] = []
    try:
        _train(model, dtype, rate, steps, course)
    except aq.errors.InvalidArgument:  # attention refuses NaN
        course.append((math.inf, math.inf))
    return course


def _train(
    model: aq.nn.Stack, dtype: torch.dtype, rate: float, steps: int, course: list[Errors]
) -> None:
    rng = torch.Generator().manual_seed(0)
    other = copy.deepcopy(model).to(dtype)
    optimiser = torch.optim.Adam(other.parameters(), lr=rate)
    course.append(errors(other, dtype))
    for step in range(1, steps + 1):
        x = torch.rand(256, 2, 1, generator=rng, dtype=torch.float64)
        loss = (other(x.to(dtype)) - f(x).to(dtype)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % _every(steps) == 0:
            course.append(errors(other, dtype))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--picture", default="fine_tune.png")
    options = parser.parse_args(arguments)
    results = {method: constructed(method) for method in METHODS}
    drawn, panels = figure(3, width=4.2)

    noisy = {
        name: [errors(disturbed(result.model, size)) for size in NOISE]
        for name, result in results.items()
    }
    print("Every weight off by a relative amount: mean and largest error\n")
    rows = [("0", *(_pair(errors(result.model)) for result in results.values()))]
    rows += [
        (f"{size:.0e}", *(_pair(noisy[name][at]) for name in results))
        for at, size in enumerate(NOISE)
    ]
    print(table(("off by", *(f"{n}, {r.size.layers} layers" for n, r in results.items())), rows))
    for colour, (name, pairs) in zip(COLOURS, noisy.items(), strict=False):
        panels[0].loglog(NOISE, [mean for mean, _ in pairs], color=colour, marker="o", label=name)
    panels[0].set_title("weights off by a relative amount", fontsize=10)
    panels[0].set_xlabel("relative noise")

    print(f"\nTrained by Adam, {options.steps} steps: mean error before and after, largest after\n")
    rows = []
    for panel, (name, result) in zip(panels[1:], results.items(), strict=True):
        for dtype, style in ((torch.float64, "-"), (torch.float32, ":")):
            for colour, rate in zip(COLOURS, RATES, strict=False):
                course = trained(result.model, dtype, rate, options.steps)
                kind = str(dtype).removeprefix("torch.")
                numbers = (course[0][0], *course[-1])
                rows.append((f"{name}, {kind}, rate {rate:.0e}", *(f"{e:.3g}" for e in numbers)))
                at = [step * _every(options.steps) for step in range(len(course))]
                means = [mean for mean, _ in course]
                panel.semilogy(at, means, color=colour, ls=style, label=f"{rate:.0e}, {kind}")
        panel.axhline(errors(result.model)[0], color=TARGET, lw=0.8, ls="--", label="as built")
        panel.set_title(f"{name}, trained by Adam", fontsize=10)
        panel.set_xlabel("steps")
    print(table(("network", "before", "after", "largest"), rows))
    for panel in panels:
        panel.set_ylabel("mean |f - T|")
        panel.legend(fontsize=7, frameon=False)
    save(drawn, options.picture)
    print(f"\ndrawn in {options.picture}")


def _every(steps: int) -> int:
    return max(1, steps // 20)


def _pair(pair: Errors) -> str:
    return f"{pair[0]:.3g}, {pair[1]:.3g}"


if __name__ == "__main__":
    main()
