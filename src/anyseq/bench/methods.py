"""`anyseq bench methods`: every method on every function, beside the usual alternatives."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import count, pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from anyseq.base import Progress, generator, silent, uniform
from anyseq.bench.equal_error import constants, equal_error, nonzero
from anyseq.construct import FUNCTIONS, Approximation, Example, approximate
from anyseq.construct.methods import METHODS
from anyseq.design import Design
from anyseq.errors import CannotApproximate
from anyseq.nn import Transformer
from anyseq.positions import NoPosition

_TOKENS = 2
_TOL = 0.1  # in L^2
_SAMPLES = 1 << 14
_DIM, _DEPTH = 32, 2  # of the trained Transformer
_MLP_LAYERS = 3
_BATCH, _RATE = 512, 3e-3
# Steps of Adam, about as long for both. Not seconds, which a busy machine would fill with fewer: on
# "waves" the Transformer is off by 0.8 after 90 steps, and by 0.02 after 400.
_STEPS = {"Transformer": 400, "ReLU MLP": 1600}
_MOST_NODES = 64  # of the Chebyshev interpolant, per axis
_EQUAL = (2, 3)  # tokens, in the table of equal errors


def bench_methods(progress: Progress = silent, quick: bool = False) -> dict[str, Any]:
    """Figures for docs/comparison.md; `quick` trains next to nothing and takes three functions, and
    equal errors for 2 tokens only."""
    examples = list(FUNCTIONS.values())
    steps = dict.fromkeys(_STEPS, 2) if quick else _STEPS
    rows = []
    for done, example in enumerate(examples[:3] if quick else examples):
        progress("functions", done, len(examples))
        rows += _function(example, steps)
    progress("functions", len(examples), len(examples))
    return {
        "tokens": _TOKENS,
        "tol": _TOL,
        "train_steps": steps,
        "rows": rows,
        "equal_error": equal_error(examples, _EQUAL[:1] if quick else _EQUAL, progress),
    }


def _function(example: Example, steps: Mapping[str, int]) -> list[dict[str, Any]]:
    """One row per method that serves the function, then Chebyshev, Transformer and MLP."""
    rows: list[dict[str, Any]] = []
    for method in METHODS:
        start = time.process_time()
        result = _construct(example, method)
        if result is None:
            continue
        rows.append(
            {
                "what": method,
                "proved": result.error.upper,
                "layers": result.size.layers,
                "parameters": result.size.parameters,
                "nonzero": nonzero(result.model),
                "seen": _l2(example, result),
                "seconds": time.process_time() - start,
            }
        )
    rows.append(_chebyshev(example))
    mlp_size = next((row["parameters"] for row in rows if row["what"] == "gather"), 10_000)
    design = Design(_TOKENS)
    torch.manual_seed(0)
    transformer = nn.Sequential(
        nn.Linear(1, _DIM), Transformer(design, _DIM, _DEPTH, 4), nn.Linear(_DIM, 1)
    )
    for what, model in (("Transformer", transformer), ("ReLU MLP", _mlp(mlp_size))):
        rows.append(_trained(what, model, example, steps[what]))
    return [{"function": example.name, **row} for row in rows]


def _construct(example: Example, method: str) -> Approximation | None:
    """With positions, or for an equivariant function also without; None if neither works."""
    designs = [Design(_TOKENS)]
    if example.equivariant:
        designs.append(Design(_TOKENS, position=NoPosition()))
    for design in designs:
        try:
            return approximate(
                example, design, features=1, tol=_TOL, norm="lp", method=method,
                **constants(example, _TOKENS),
            )  # fmt: skip
        except CannotApproximate:
            continue
    return None


def _l2(f: Example, g: Callable[[torch.Tensor], torch.Tensor]) -> float:
    """The L^2 error at random inputs that none was fitted to."""
    x = uniform(_SAMPLES, _TOKENS, 1, rng=generator(12345))
    with torch.no_grad():
        return float((f(x) - g(x)).square().sum((1, 2)).mean().sqrt())


def _chebyshev(example: Example) -> dict[str, Any]:
    """Tensor-product interpolation in Chebyshev points: as few as meet the tolerance."""
    start = time.process_time()
    for nodes in count(1):
        points = (1 + np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes)) / 2
        grid = np.stack(np.meshgrid(*[points] * _TOKENS, indexing="ij"), axis=-1)
        x = torch.from_numpy(grid.reshape(-1, _TOKENS, 1))
        values = example(x).numpy().reshape(*[nodes] * _TOKENS, _TOKENS)
        inverse = np.linalg.inv(np.polynomial.chebyshev.chebvander(2 * points - 1, nodes - 1))
        coefficients = np.einsum("ai,bj,ijt->abt", inverse, inverse, values)

        def interpolant(x: torch.Tensor, c: np.ndarray = coefficients) -> torch.Tensor:
            u = 2 * x[..., 0].numpy() - 1
            left, right = (np.polynomial.chebyshev.chebvander(u[:, k], len(c) - 1) for k in (0, 1))
            return torch.from_numpy(np.einsum("na,nb,abt->nt", left, right, c))[..., None]

        seen = _l2(example, interpolant)
        if seen <= _TOL or nodes == _MOST_NODES:
            return {
                "what": f"Chebyshev, {nodes} x {nodes}",
                "proved": None,
                "layers": None,
                "parameters": coefficients.size,
                "nonzero": None,
                "seen": seen,
                "seconds": time.process_time() - start,
            }
    raise AssertionError("count never ends")


def _mlp(parameters: int) -> nn.Module:
    """All entries in, all outputs out, with about so many parameters."""
    width = max(2, round((parameters / (_MLP_LAYERS - 1)) ** 0.5))
    layers: list[nn.Module] = [nn.Flatten()]
    sizes = [_TOKENS, *[width] * _MLP_LAYERS, _TOKENS]
    for inside, outside in pairwise(sizes):
        layers += [nn.Linear(inside, outside), nn.ReLU()]
    return nn.Sequential(*layers[:-1], nn.Unflatten(1, (_TOKENS, 1)))


def _trained(what: str, model: nn.Module, example: Example, steps: int) -> dict[str, Any]:
    """Adam in float32 on fresh random inputs, with the rate falling to 0."""
    optimiser = torch.optim.Adam(model.parameters(), lr=_RATE)
    falling = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, steps)
    rng = generator(0)
    start = time.process_time()
    for _ in range(steps):
        x = uniform(_BATCH, _TOKENS, 1, rng=rng)
        loss = (model(x.float()) - example(x)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        falling.step()
    return {
        "what": f"{what}, trained",
        "proved": None,
        "layers": _DEPTH if what == "Transformer" else _MLP_LAYERS + 1,
        "parameters": sum(p.numel() for p in model.parameters()),
        "nonzero": None,
        "seen": _l2(example, lambda x: model(x.float())),
        "seconds": time.process_time() - start,
    }
