"""The result of an independent check: checks that hold, fail or were skipped."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from textwrap import fill

import numpy as np
import torch

Tensors = Mapping[str, torch.Tensor]
Weights = Mapping[str, np.ndarray]


class Disagreement(Exception):
    """What was found differs from what is claimed."""


class Skipped(Exception):
    """Something could not be checked; the text says why."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. passed: None if it was skipped; `why` says why."""

    name: str
    passed: bool | None
    why: str

    @classmethod
    def of(cls, name: str, look: Callable[[], str]) -> Check:
        """`look` returns what it found, or raises Disagreement or Skipped; what overflows is an
        error, as no comparison with NaN would be."""
        try:
            with np.errstate(all="raise", under="ignore"):
                return cls(name, True, look())
        except Disagreement as problem:
            return cls(name, False, str(problem))
        except Skipped as reason:
            return cls(name, None, str(reason))
        except (LookupError, ValueError, ArithmeticError, TypeError, RuntimeError,
                AttributeError, AssertionError) as problem:  # fmt: skip
            why = f"tensors and claim do not fit together: {type(problem).__name__}: {problem}"
            return cls(name, False, why)


@dataclass(frozen=True)
class Verification:
    """True if everything that was looked at holds. Print it to see what was, and what not."""

    checks: tuple[Check, ...]

    def __bool__(self) -> bool:
        return all(check.passed is not False for check in self.checks)

    def __str__(self) -> str:
        words = {True: "holds", False: "FAILS", None: "skipped"}
        width = max(len(check.name) for check in self.checks)
        return "\n".join(
            fill(
                f"{check.name.ljust(width)}  {words[check.passed]}: {check.why}",
                80,
                subsequent_indent=" " * (width + 2),
            )
            for check in self.checks
        )

    __repr__ = __str__


def digest(tensors: Tensors) -> str:
    """The SHA-256 of tensors with their names, types and shapes."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def fresh() -> np.random.Generator:
    """A new seed every time, so that no file can be prepared for the samples."""
    return np.random.default_rng()
