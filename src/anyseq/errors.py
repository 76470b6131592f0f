"""Everything anyseq raises on purpose.

Each message names the argument, what came, what was expected and what to do. At the command line
an `AnyseqError` is one line and exit code 2.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "AnyseqError",
    "CannotApproximate",
    "ConstructionFault",
    "FileProblem",
    "InvalidArgument",
    "InvalidFunction",
    "MissingExtra",
    "TrainingDiverged",
    "UnsupportedModel",
    "WeightsChanged",
]


class AnyseqError(Exception):
    """The base of every error below."""


class InvalidArgument(AnyseqError, ValueError):
    """An argument has the wrong type, shape or value."""


class InvalidFunction(AnyseqError, ValueError):
    """The function to approximate does not behave like a function of one sequence."""


class CannotApproximate(AnyseqError):
    """The function cannot be approximated as asked; `reasons` lists why, one by one."""

    def __init__(self, summary: str, reasons: Sequence[str] = ()) -> None:
        self.summary = summary
        self.reasons = tuple(reasons)
        between = "; " if len(self.reasons) == 1 else "\n  "
        super().__init__(between.join([summary, *self.reasons]))


class ConstructionFault(AnyseqError):
    """A construction failed its own check. Nothing was returned, because it would be wrong."""


class WeightsChanged(AnyseqError):
    """The weights have changed, so the fused form and the error no longer describe them."""


class FileProblem(AnyseqError):
    """A file or folder is missing, damaged, of another kind, or must not be overwritten."""


class MissingExtra(AnyseqError, ImportError):
    """A part of anyseq needs a package that is not installed; the message has the pip command."""


class TrainingDiverged(AnyseqError):
    """The loss of a training run is no longer a number."""


class UnsupportedModel(AnyseqError, ValueError):
    """A Hugging Face model or config that cannot be changed, read or probed as requested."""
