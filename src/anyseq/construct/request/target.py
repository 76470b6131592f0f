"""The function to approximate, watched: every misbehaviour becomes one clear error."""

from __future__ import annotations

from collections.abc import Callable

import torch

from anyseq.base import Progress, generator, silent, uniform
from anyseq.errors import InvalidFunction

Function = Callable[[torch.Tensor], torch.Tensor]
"""(batch, tokens, features) in [0, 1] -> (batch, tokens, out_features), vectorised, float64."""

_BATCH = 1 << 15  # sequences handed to f at a time


class Target:
    """f with its shapes; calling it checks what comes back."""

    def __init__(self, f: Function, tokens: int, features: int, out_features: int | None) -> None:
        if not callable(f):
            raise InvalidFunction(f"f={f!r} is not callable; expected a function of a tensor")
        self._f = f
        self.tokens, self.features = tokens, features
        self.out_features = out_features or 0
        self._inspect(uniform(8, tokens, features, rng=generator(0)))

    def __call__(
        self, x: torch.Tensor, progress: Progress = silent, stage: str = "evaluate f"
    ) -> torch.Tensor:
        """f(x) for x (batch, tokens, features), float64 and finite."""
        y = torch.empty(len(x), self.tokens, self.out_features, dtype=torch.float64)
        for low in range(0, len(x), _BATCH):
            y[low : low + _BATCH] = self._once(x[low : low + _BATCH])
            progress(stage, min(low + _BATCH, len(x)), len(x))
        return y

    def _once(self, x: torch.Tensor) -> torch.Tensor:
        came = f"f was given a float64 tensor of shape {tuple(x.shape)}"
        try:
            with torch.no_grad():
                y = self._f(x.clone())
        except Exception as problem:
            raise InvalidFunction(
                f"{came} and raised {type(problem).__name__}: {problem}"
            ) from problem
        if not isinstance(y, torch.Tensor) or y.dtype != torch.float64:
            kind = f"a {y.dtype} tensor" if isinstance(y, torch.Tensor) else type(y).__name__
            raise InvalidFunction(f"{came} and returned {kind}; expected a float64 tensor")
        shape = (len(x), self.tokens, self.out_features or (y.shape[2] if y.ndim == 3 else 0))
        if tuple(y.shape) != shape or not shape[2]:
            wanted = f"({len(x)}, {self.tokens}, {self.out_features or 'out_features'})"
            raise InvalidFunction(f"{came} and returned shape {tuple(y.shape)}; expected {wanted}")
        bad = (~torch.isfinite(y)).flatten(1).any(1)
        if bad.any():
            first = x[bad][0].tolist()
            raise InvalidFunction(
                f"f returned NaN or infinity at x = {first}; expected finite values"
            )
        return y.detach()

    def _inspect(self, x: torch.Tensor) -> None:
        y = self._once(x)
        self.out_features = y.shape[2]
        again = self._once(x)
        if not torch.equal(y, again):
            row = int((y != again).flatten(1).any(1).nonzero()[0])
            raise InvalidFunction(
                f"f is not deterministic: two calls at x = {x[row].tolist()} differ by up to "
                f"{(y - again).abs().max():.3g}; fix its random numbers"
            )
        # A batch of another size may take another path through BLAS: allow rounding, no more.
        alone = torch.cat([self._once(row) for row in x.split(1)])
        if not torch.allclose(y, alone, rtol=1e-9, atol=1e-9):
            row = int((y - alone).abs().flatten(1).amax(1).argmax())
            raise InvalidFunction(
                f"f mixes the sequences of a batch: at x = {x[row].tolist()} its value depends on "
                "the other sequences; expected each sequence on its own"
            )
