"""A "no", as something to run: a function, and inputs on which no network of the design has it.

A witness holds finitely many sequences, the values of the target function on them, and a bound
that no network of the design gets below, whatever its weights. `replay` measures it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from anyseq.base import at_least_one, rounded_down
from anyseq.errors import InvalidArgument
from anyseq.models import features_of

Model = Callable[[torch.Tensor], torch.Tensor]
"""(batch, tokens, features) -> (batch, tokens, anything)."""


@dataclass(frozen=True, eq=False)
class Witness:
    """Sequences on which the design fails.

    name: W1, ..., W11; the property of the design behind it.
    function: the target in words.
    why: what prevents every network from computing it.
    norm: "sup": the error is the largest entry of |f - T| over these sequences. "lp": it is the
        weighted sum over the sequences of Σ_i |f_i - T_i|², averaged over features: L2², exactly,
        for the law that the weights stand for.
    sequences: (B, n); token i of sequence b has this value in every feature.
    values: (B, n); f there, the same in every feature. weights: (B,), they sum to 1.
    bound: no network of the design errs by less.
    """

    name: str
    function: str
    why: str
    norm: str
    bound: float
    sequences: torch.Tensor = field(repr=False)
    values: torch.Tensor = field(repr=False)
    weights: torch.Tensor = field(repr=False)

    def inputs(self, features: int = 1) -> torch.Tensor:
        """(B, n, features) the sequences, float64."""
        return self.sequences[..., None].expand(-1, -1, at_least_one("features", features))

    def replay(self, model: Model, features: int | None = None) -> float:
        """The error of a real module, in evaluation mode: at least `bound`, up to its rounding.

        features: how many the module takes; what it says of itself unless given, or 1.
        """
        if not callable(model):
            raise InvalidArgument(f"model={model!r}: expected a module or a function")
        if features is None:
            if isinstance(model, torch.nn.Module):
                features = features_of(model)
            else:
                features = int(getattr(model, "features", 1))
        parts = list(model.modules()) if isinstance(model, torch.nn.Module) else []
        training = [part for part in parts if part.training]
        x = self.inputs(features).to(*_kind_of(model), copy=True)
        for part in parts:
            part.training = False
        try:
            with torch.no_grad():
                out = model(x)
        except (RuntimeError, TypeError, ValueError, IndexError) as problem:
            raise InvalidArgument(
                f"model fails on {tuple(x.shape)}, (batch, tokens, features): {problem}; give "
                "features=, or a function that maps floats of that shape to outputs"
            ) from problem
        finally:
            for part in training:
                part.training = True
        if not isinstance(out, torch.Tensor) or out.shape[:2] != self.values.shape or out.ndim != 3:
            came = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
            raise InvalidArgument(
                f"model gave {came} for {tuple(x.shape)}: expected (batch, tokens, features)"
            )
        if not out.shape[2] or bool(out.isnan().any()):
            raise InvalidArgument("model gave NaN, or no features: there is no error to measure")
        return self.error(out)

    def error(self, out: torch.Tensor) -> float:
        """How far outputs (B, n, e) at `inputs` are from the function, in the norm."""
        apart = out.detach().double().cpu() - self.values[..., None]
        if self.norm == "sup":
            return float(apart.abs().max())
        return float((apart.square().mean(-1).sum(-1) * self.weights).sum())

    def __str__(self) -> str:
        unit = "sup norm" if self.norm == "sup" else "L2², summed over tokens"
        least = f"error at least {rounded_down(self.bound)} ({unit})"
        return f"{self.name}: {self.function}: {least}. {self.why}"


def _kind_of(model: Model) -> tuple[torch.device, torch.dtype]:
    """The device and dtype that a module computes in; float64 on the CPU for plain functions."""
    if isinstance(model, torch.nn.Module):
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_floating_point():
                return tensor.device, tensor.dtype
    return torch.device("cpu"), torch.float64
