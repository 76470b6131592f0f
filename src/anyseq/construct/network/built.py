"""What a construction built: the network, its look-up, its facts and what is known of its error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from anyseq.construct.network.stages import Stage
from anyseq.construct.request.error import ErrorReport
from anyseq.construct.tables.fused import Fused
from anyseq.design import Design
from anyseq.errors import ConstructionFault, InvalidArgument, WeightsChanged
from anyseq.nn import Stack, StackShape


@dataclass(frozen=True)
class Facts:
    """What an approximation is, apart from its numbers and its error.

    status: how much of the error is proved, see `anyseq.construct.request.error.STATUS`.
    tol: what was asked. checked: what the construction verified while it was built. stages: which
    layers do what.
    """

    design: Design
    method: str
    status: str
    tol: float
    step: float
    cells: int
    shape: StackShape
    checked: Mapping[str, str]
    stages: tuple[Stage, ...]


@dataclass(eq=False)
class Built:
    """T with T ≈ f: all of an Approximation but what is made of it."""

    facts: Facts
    error: ErrorReport
    fused: Fused
    _make_model: Callable[[], Stack]
    _model: Stack | None = None
    _fingerprint: str = ""

    @property
    def design(self) -> Design:
        """The design it was built for."""
        return self.facts.design

    @property
    def method(self) -> str:
        """The method that built it."""
        return self.facts.method

    @property
    def status(self) -> str:
        """How much of the error is proved: "certified-float64" (all of it, rounding included),
        "certified" (all but rounding), "conditional" (nothing: f was only sampled) or "sampled"
        (nothing: the error was measured)."""
        return self.facts.status

    @property
    def size(self) -> StackShape:
        """Layers, width, heads, parameters, ..."""
        return self.facts.shape

    @property
    def model(self) -> Stack:
        """The network: softmax attention and ReLU blocks, trainable."""
        if self._model is None:
            model = self._make_model()
            if model.shape != self.facts.shape:
                raise ConstructionFault(f"built {model.shape}, planned {self.facts.shape}")
            model.stages = tuple((stage.name, stage.layers) for stage in self.facts.stages)
            self._model, self._fingerprint = model, model.fingerprint()
        return self._model

    def check_unchanged(self) -> None:
        """Raise if the weights are not the constructed ones any more."""
        if self._model is not None and self._model.fingerprint() != self._fingerprint:
            raise WeightsChanged(
                "the weights of result.model have been changed; what result(x), result.error and "
                "result.save(folder) speak of is the constructed network: use result.model(x)"
            )

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """T(x) for x (batch, tokens, features) in float64 -> (batch, tokens, out_features)."""
        self.check_input(x, ("batch", self.size.tokens, self.size.in_features))
        self.check_unchanged()
        # On a ramp the blocks magnify a last bit to a whole id, and matrix products of another
        # batch size may round the last bit otherwise. So the batch stays as it is.
        if self.fused.covers(x).all():
            return self.fused(x)
        out: torch.Tensor = self.model(x)
        if not bool(out.isfinite().all()):
            raise InvalidArgument(
                f"x holds {float(x.abs().max()):.3g}: the network overflows float64; expected "
                "numbers in [0, 1] for the error to hold"
            )
        return out

    def check_input(self, x: object, expected: tuple[int | str, ...]) -> None:
        """Raise unless x is a finite float64 tensor of this shape."""
        came = tuple(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
        fits = isinstance(came, tuple) and len(came) == len(expected)
        if not fits or any(b not in (a, "batch") for a, b in zip(came, expected, strict=True)):
            raise InvalidArgument(f"x: {came}; expected a tensor ({', '.join(map(str, expected))})")
        assert isinstance(x, torch.Tensor)
        if x.dtype != torch.float64:
            raise InvalidArgument(f"x of dtype {x.dtype}: expected float64, use x.double()")
        if not bool(x.isfinite().all()):
            what = "NaN" if bool(x.isnan().any()) else "an infinity"
            raise InvalidArgument(
                f"x holds {what}: expected finite numbers, in [0, 1] for the error to hold"
            )
