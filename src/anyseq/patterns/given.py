"""A pattern from a mask that somebody already has."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import torch

from anyseq.errors import InvalidArgument
from anyseq.patterns.blocks import MaskMod
from anyseq.patterns.pattern import Pattern
from anyseq.patterns.resolve import PatternLike, differs_by_row_or_head, evaluated, resolve


@dataclass(frozen=True, eq=False)
class FromMask(Pattern):
    """A bool tensor (n, n), a mask_mod that looks at i and j only, or a BlockMask, as a Pattern.

    The operator takes a mask_mod that looks at b and h, too, but has no tiles for it.
    Tensors are compared by content, callables by identity; only tensors can be written down.
    """

    given: PatternLike

    def __post_init__(self) -> None:
        if isinstance(self.given, (list, tuple)):  # as `to_dict` wrote it
            try:
                mask = torch.tensor(self.given, dtype=torch.bool)
            except (TypeError, ValueError) as problem:
                raise InvalidArgument(f"given: a list that is no mask: {problem}") from problem
            object.__setattr__(self, "given", mask)
        resolve(self.given, 1)
        if isinstance(self.given, torch.Tensor):
            shape = tuple(self.given.shape)
            if len(shape) != 2 or shape[0] != shape[1]:
                raise InvalidArgument(f"given: a tensor of shape {shape}; expected (n, n)")

    @property
    def natural_length(self) -> int | None:
        return len(self.given) if isinstance(self.given, torch.Tensor) else None

    @property
    def differs(self) -> bool:
        return not isinstance(self.given, torch.Tensor) and differs_by_row_or_head(
            resolve(self.given, 1)
        )

    def at(self, n: int) -> MaskMod:
        if isinstance(self.given, torch.Tensor) and tuple(self.given.shape) != (n, n):
            raise InvalidArgument(
                f"given: a mask of shape {tuple(self.given.shape)} for a sequence of {n} tokens"
            )
        mask_mod = resolve(self.given, n)
        if isinstance(self.given, torch.Tensor):
            return mask_mod
        return lambda b, h, i, j: evaluated(mask_mod, b, h, i, j)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FromMask) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> object:
        if isinstance(self.given, torch.Tensor):
            return self.given.shape, hashlib.sha256(self.given.numpy().tobytes()).digest()
        return id(self.given)

    def to_dict(self) -> dict[str, Any]:
        if not isinstance(self.given, torch.Tensor):
            raise InvalidArgument(
                "a FromMask that holds a callable cannot be written down; use FromMask(mask tensor)"
            )
        return {"kind": "FromMask", "given": self.given.tolist()}
