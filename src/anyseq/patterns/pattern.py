"""A pattern says which tokens each token may attend to: a frozen dataclass, usable as a
mask_mod."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from functools import reduce
from inspect import isabstract
from numbers import Integral
from operator import or_
from typing import TYPE_CHECKING, Any

import torch

from anyseq.base import at_least_one
from anyseq.errors import InvalidArgument
from anyseq.patterns.blocks import BlockBounds, MaskMod, bounds_from_offsets, classify, look

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

_EDGE_BLOCK = 64  # edges are looked for in blocks of this size

_KINDS: dict[str, type[Pattern]] = {}

PatternLike = Any
"""A Pattern, its text ("window(64) | global(0)"), a mask_mod, a bool tensor (..., N, M), or a
FlexAttention BlockMask."""


class Pattern(ABC):
    """The base of every pattern; a subclass is a frozen dataclass that defines `at`.

    Patterns are compared and hashed by content.
    """

    def __init_subclass__(cls) -> None:
        _KINDS[cls.__name__] = cls

    @abstractmethod
    def at(self, n: int) -> MaskMod:
        """The mask_mod for sequences of n tokens."""

    @property
    def prefix_stable(self) -> bool:
        """Rows keep their edges as n grows: what a cache of keys and values needs."""
        return False

    def mask(self, n: int) -> torch.Tensor:
        """(n, n) bool; entry (i, j) says whether token i may attend to token j, in any head."""
        at_least_one("n", n)
        self.check_same()
        if len(self.heads()) > 1:
            return torch.stack([head.mask(n) for head in self.heads()]).any(0)
        index = torch.arange(n)
        zero = torch.zeros((), dtype=torch.int64)
        mask = self.at(n)(zero, zero, index[:, None], index[None, :])
        return mask.expand(n, n).clone()

    def offsets(self, n: int) -> torch.Tensor | None:
        """(2n-1,) bool, for i-j = 1-n, ..., n-1, if the mask depends on i-j only; else None."""
        return None

    def blocks(self, n: int, size: int) -> BlockBounds:
        """What is known, without the n x n mask, of its blocks of size x size."""
        offsets = self.offsets(n)
        if offsets is not None:
            return bounds_from_offsets(offsets, n, size)
        return BlockBounds.unknown(n, size)

    def block_mask(self, n: int, size: int = 128, heads: int | None = None) -> BlockMask:
        """The FlexAttention BlockMask on the CPU; only undecided blocks are computed entry by
        entry.

        heads: how many the model has; needed if the pattern differs from head to head.
        """
        from torch.nn.attention.flex_attention import BlockMask

        at_least_one("n", n)
        at_least_one("size", size)
        self.check_same()
        parts = self.heads()
        if len(parts) > 1:
            if heads is None:
                raise InvalidArgument(
                    "heads: the pattern differs from head to head; give the number of heads"
                )
            parts = tuple(parts[head % len(parts)] for head in range(at_least_one("heads", heads)))
        known = {part: classify(part.blocks(n, size), part.at(n), n, size) for part in set(parts)}
        some = torch.stack([known[part].some_sure for part in parts])
        complete = torch.arange(some.shape[1]) < n // size
        full = torch.stack([known[part].all_sure for part in parts]) & complete[:, None] & complete
        return BlockMask.from_kv_blocks(
            *_listed(some & ~full),
            *_listed(full),
            BLOCK_SIZE=size,
            mask_mod=self.at(n),
            seq_lengths=(n, n),
        )

    def heads(self) -> tuple[Pattern, ...]:
        """The patterns that the heads cycle through, none of which differs by head; mostly just
        one.
        """
        return (self,)

    @property
    def natural_length(self) -> int | None:
        """The only number of tokens that the pattern fits, or None if it fits any."""
        return None

    def parts_at(self, n: int) -> tuple[Pattern, ...]:
        """Simpler patterns whose union is this one, for n tokens; only itself, if there are
        none."""
        return (self,)

    @property
    def lasting(self) -> bool:
        """Whether the mask never changes; a user-defined function may depend on state that does."""
        return True

    @property
    def differs(self) -> bool:
        """Whether batch rows may have different masks, or heads in a way that `heads` does not
        describe.
        """
        return False

    @property
    def grain(self) -> int:
        """The size of blocks in which the mask is best cut up."""
        return 64

    def edges(self, n: int) -> torch.Tensor:
        """(2, E) int64: the pairs (i, j) with i attending to j, sorted by i, then j."""
        at_least_one("n", n)
        self.check_same()
        if len(self.heads()) > 1:
            return reduce(or_, self.heads()).edges(n)
        parts = [torch.zeros(2, 0, dtype=torch.int64)]
        maybe = self.blocks(n, _EDGE_BLOCK).some_maybe
        for pairs, mask, _ in look(maybe, self.at(n), n, _EDGE_BLOCK):
            block, row, column = mask.nonzero().T
            parts.append(pairs[block].T * _EDGE_BLOCK + torch.stack([row, column]))
        edges = torch.cat(parts, dim=1)
        return edges[:, (edges[0] * n + edges[1]).argsort()]

    def check_same(self) -> None:
        """Check that one mask serves all batch rows, and all heads in `heads`."""
        if self.differs:
            zero = torch.zeros((), dtype=torch.int64)
            self.at(self.natural_length or 1)(zero, zero, zero, zero)  # what fails says so itself
            raise InvalidArgument(
                "pattern: its mask_mod depends on the batch row b or the head h, so it "
                "is not a single mask; give each head its own mask_mod of i and j "
                "only: PerHead(first, second, ...)"
            )

    def sparsity(self, n: int) -> float:
        """The share of pairs (i, j) in which i does not attend to j."""
        return 1.0 - self.edges(n).shape[1] / n**2

    def __or__(self, other: PatternLike) -> Pattern:
        from anyseq.patterns.algebra import Union
        from anyseq.patterns.given import as_pattern

        return Union.of(self, as_pattern(other))

    def __and__(self, other: PatternLike) -> Pattern:
        from anyseq.patterns.algebra import Intersection
        from anyseq.patterns.given import as_pattern

        return Intersection.of(self, as_pattern(other))

    __ror__, __rand__ = __or__, __and__

    def __invert__(self) -> Pattern:
        from anyseq.patterns.algebra import Complement

        return Complement(self)

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Pattern:
        """The pattern with these fields."""
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready description; `pattern_from_dict` reads it back."""
        return {"kind": type(self).__name__} | {
            field.name: _plain(getattr(self, field.name))
            for field in fields(self)  # type: ignore[arg-type]  # every subclass is a dataclass
        }


class LengthFree(Pattern):
    """The base of patterns whose rule does not depend on n: each is itself the mask_mod."""

    @abstractmethod
    def __call__(
        self, b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
    ) -> torch.Tensor:
        """Whether query i may attend to key j, in batch row b and head h."""

    def at(self, n: int) -> MaskMod:
        return self


def pattern_from_dict(description: Mapping[str, Any]) -> Pattern:
    """The pattern that `to_dict` described."""
    if not isinstance(description, Mapping):
        raise InvalidArgument(f"pattern {description!r}: expected a dictionary")
    values = dict(description)
    kind = values.pop("kind", None)
    known = {
        name: cls for name, cls in _KINDS.items() if not (isabstract(cls) or name.startswith("_"))
    }
    if not isinstance(kind, str) or kind not in known:
        raise InvalidArgument(f"pattern kind={kind!r}: expected one of {', '.join(sorted(known))}")
    try:
        return known[kind].from_values({name: _rich(value) for name, value in values.items()})
    except (TypeError, KeyError) as problem:
        raise InvalidArgument(f"pattern {kind} cannot be read from {values}: {problem}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)  # numpy's numbers are no JSON
    if isinstance(value, Pattern):
        return value.to_dict()
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


def _rich(value: Any) -> Any:
    if isinstance(value, Mapping):
        return pattern_from_dict(value)
    return tuple(_rich(part) for part in value) if isinstance(value, list) else value


def _listed(blocks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(1, heads, blocks) counts, (1, heads, blocks, blocks) indices, marked first, as int32."""
    order = blocks.to(torch.int8).argsort(dim=2, descending=True, stable=True)
    return blocks.sum(2).to(torch.int32)[None], order.to(torch.int32)[None]
