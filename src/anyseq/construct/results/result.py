"""Approximation: the network for f, its fused form, its size and what is known of its error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from anyseq.base import Progress, silent
from anyseq.construct.network.stages import Stage
from anyseq.construct.request.error import ErrorReport
from anyseq.construct.results.certificate import Certificate
from anyseq.construct.tables.fused import Fused
from anyseq.construct.verifiers.claim import Claim
from anyseq.design import Design
from anyseq.errors import ConstructionFault, InvalidArgument, WeightsChanged
from anyseq.nn import Stack, StackShape

if TYPE_CHECKING:
    from anyseq.construct.explaining.explain import Explanation


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
class Approximation:
    """T with T ≈ f.

    `result.model` is the network, a Stack of ordinary blocks, built when first asked for, and
    always runs the blocks. `result(x)` is the same function, evaluated by look-up; a batch with an
    input that the look-up does not cover (on a ramp, outside the domain) goes through the blocks.
    The two agree to 1e-9, times the largest |f| if that is above 1.
    """

    facts: Facts
    error: ErrorReport
    fused: Fused
    _make_model: Callable[[], Stack]
    _model: Stack | None = None
    _fingerprint: str = ""
    _claim: Claim | None = None
    _certificate: Certificate | None = None

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
    def certificate(self) -> Certificate | None:
        """The proof of `error.upper`, to be checked again by `certificate.verify()`; None where
        nothing is proved."""
        if self._certificate is None and self._claim is not None:
            self.check_unchanged()
            self._certificate = Certificate.of(self._claim, self)
        return self._certificate

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
        self._check_input(x, ("batch", self.size.tokens, self.size.in_features))
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

    def _check_input(self, x: object, expected: tuple[int | str, ...]) -> None:
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

    def explain(self, x: torch.Tensor | Sequence[Any]) -> Explanation:
        """What each stage of the network did to one input x (tokens, features), layer by layer.

        x: a float64 tensor, or a plain list: [[0.1], [0.7], [0.3]], or flat, the features of token
            0 first: [0.1, 0.7, 0.3].

        Print it, draw it with `anyseq.show`, or watch it with `anyseq.animate`.
        """
        from anyseq.construct.explaining.explain import explain

        if not isinstance(x, torch.Tensor):
            x = self._from_list(x)
        self._check_input(x, (self.size.tokens, self.size.in_features))
        self.check_unchanged()
        return explain(self, x)

    def _from_list(self, x: Sequence[Any]) -> torch.Tensor:
        shape = (self.size.tokens, self.size.in_features)
        try:
            entries = torch.tensor(x, dtype=torch.float64)
        except (TypeError, ValueError, RuntimeError) as problem:
            raise InvalidArgument(
                f"x: {problem}; expected a list of {shape[0]} tokens of {shape[1]} numbers"
            ) from problem
        return entries.view(shape) if tuple(entries.shape) == (shape[0] * shape[1],) else entries

    def save(self, folder: str | Path, progress: Progress = silent) -> None:
        """Write a new folder: safetensors and JSON with hashes. `anyseq.load(folder)` reads it."""
        from anyseq.construct.files.store import save

        self.check_unchanged()
        progress("write the weights", 0, 1)
        save(self, folder)
        progress("write the weights", 1, 1)

    def export(self, format: str, file: str | Path, *, what: str | None = None) -> None:
        """Write a new file for other tools.

        format: "onnx" (needs the extra `export`), "torch.export" or "safetensors"; the file's name
            ends in .onnx, .pt2 or .safetensors.
        what: of the first two: "compact", unless given: the table, NaN outside it;
            or "network": every block, for at most 64 layers. A safetensors file holds the tensors
            of both.
        """
        from anyseq.construct.files.export import export

        self.check_unchanged()
        export(self, format, file, what)

    def to_dict(self) -> dict[str, Any]:
        """The facts and the error, JSON-ready."""
        from anyseq.construct.files.store import describe

        return describe(self)

    def __repr__(self) -> str:
        from anyseq.construct.results.text import summary

        return summary(self)

    def _repr_html_(self) -> str:
        from anyseq.construct.results.text import summary_html

        return summary_html(self)
