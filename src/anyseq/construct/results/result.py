"""Approximation: the network for f, and what can be made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from anyseq.base import Progress, silent
from anyseq.construct.claims.claim import Claim
from anyseq.construct.network.built import Built
from anyseq.construct.results.certificate import Certificate
from anyseq.errors import InvalidArgument

if TYPE_CHECKING:
    from anyseq.construct.explaining.explanation import Explanation


@dataclass(eq=False)
class Approximation(Built):
    """T with T ≈ f.

    `result.model` is the network, a Stack of ordinary blocks, built when first asked for, and
    always runs the blocks. `result(x)` is the same function, evaluated by look-up; a batch with an
    input that the look-up does not cover (on a ramp, outside the domain) goes through the blocks.
    The two agree to 1e-9, times the largest |f| if that is above 1.
    """

    _claim: Claim | None = None
    _certificate: Certificate | None = None

    @property
    def certificate(self) -> Certificate | None:
        """The proof of `error.upper`, to be checked again by `certificate.verify()`; None where
        nothing is proved."""
        if self._certificate is None and self._claim is not None:
            self.check_unchanged()
            self._certificate = Certificate.of(self._claim, self)
        return self._certificate

    def explain(self, x: torch.Tensor | Sequence[Any]) -> Explanation:
        """What each stage of the network did to one input x (tokens, features), layer by layer.

        x: a float64 tensor, or a plain list: [[0.1], [0.7], [0.3]], or flat, the features of token
            0 first: [0.1, 0.7, 0.3].

        Print it, draw it with `anyseq.show`, or watch it with `anyseq.animate`.
        """
        from anyseq.construct.explaining.explain import explain

        if not isinstance(x, torch.Tensor):
            x = self._from_list(x)
        self.check_input(x, (self.size.tokens, self.size.in_features))
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
        certificate = self.certificate
        save(self, None if certificate is None else certificate.to_dict(), folder)
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
