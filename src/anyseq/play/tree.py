"""The tree of a formula, and how it is walked for one token.

A tree is a list: its kind, then its parts, so that it is JSON as it stands; the page walks the same
tree. The walk knows indices, sequences and cases; what numbers are is up to an algebra: tensors, or
bounds for them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from anyseq.errors import InvalidArgument

Tree = list[Any]

E = TypeVar("E")

ENTRYWISE = ("sin", "cos", "exp", "log", "sqrt", "abs", "tanh", "sigmoid", "relu")
"""Functions of a number, or of every entry of a sequence."""

OF_SEQUENCE = ("sum", "mean", "sort")

_BINARY = ("add", "subtract", "multiply", "divide")
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}
_LARGEST = 10**12
_WHOLE = ("whole", "i", "n", "//", "%")


class Algebra(Protocol[E]):
    """What can be done to numbers."""

    def constant(self, value: float) -> E: ...
    def unary(self, name: str, a: E) -> E: ...
    def power(self, a: E, exponent: int) -> E: ...
    def binary(self, name: str, a: E, b: E) -> E: ...
    def sort(self, entries: Sequence[E]) -> list[E]: ...


class Walk(Generic[E]):
    """The values of a tree's parts for token i of the tokens x."""

    def __init__(self, algebra: Algebra[E], x: Sequence[E], i: int) -> None:
        self._algebra, self._x, self._i = algebra, list(x), i

    def number(self, tree: Tree) -> E:
        """What a tree that is no sequence stands for."""
        value = self._value(tree)
        assert not isinstance(value, list)
        return value

    def _value(self, tree: Tree) -> E | list[E]:
        kind, algebra = tree[0], self._algebra
        if kind == "x":
            return list(self._x)
        if kind == "number":
            return algebra.constant(tree[1])
        if kind in _WHOLE:
            return algebra.constant(float(self._whole(tree)))
        if kind == "negative":
            zero = algebra.constant(0.0)
            return self._each(lambda a: algebra.binary("subtract", zero, a), tree[1])
        if kind in ENTRYWISE:
            return self._each(lambda a: algebra.unary(kind, a), tree[1])
        if kind == "power":
            return self._each(lambda a: algebra.power(a, tree[2]), tree[1])
        if kind in _BINARY:
            return self._both(kind, self._value(tree[1]), self._value(tree[2]))
        if kind == "if":
            name, left, right = tree[1]
            holds = _COMPARE[name](self._whole(left), self._whole(right))
            return self._value(tree[2] if holds else tree[3])
        entries = self._entries(tree)
        return entries if kind in ("slice", "list", "sort") else self._one(tree, entries)

    def _entries(self, tree: Tree) -> list[E]:
        """The entries that a tree speaks of."""
        kind = tree[0]
        if kind == "list":
            return [self.number(part) for part in tree[1:]]
        inner = self._value(tree[1])
        assert isinstance(inner, list)
        if kind == "slice":
            count = len(inner)
            first, end = (None if part is None else self._whole(part) for part in tree[2:])
            low, high = first or 0, count if end is None else end
            if not 0 <= low < high <= count:
                self._missing(f"entries {low} to {high - 1}", count)
            return inner[low:high]
        return self._algebra.sort(inner) if kind == "sort" else inner

    def _one(self, tree: Tree, entries: list[E]) -> E:
        kind, algebra = tree[0], self._algebra
        if kind == "entry":
            at = self._whole(tree[2])
            if not 0 <= at < len(entries):
                self._missing(f"entry {at}", len(entries))
            return entries[at]
        if kind in ("max", "min"):
            return algebra.sort(entries)[-1 if kind == "max" else 0]
        total = entries[0]
        for entry in entries[1:]:
            total = algebra.binary("add", total, entry)
        count = algebra.constant(float(len(entries)))
        return total if kind == "sum" else algebra.binary("divide", total, count)

    def _each(self, of: Callable[[E], E], tree: Tree) -> E | list[E]:
        value = self._value(tree)
        return [of(entry) for entry in value] if isinstance(value, list) else of(value)

    def _both(self, name: str, a: E | list[E], b: E | list[E]) -> E | list[E]:
        combine = self._algebra.binary
        if isinstance(a, list) and isinstance(b, list):
            if len(a) != len(b):
                raise InvalidArgument(
                    f"formula: token {self._i} has sequences of {len(a)} and {len(b)} entries on "
                    "two sides of an operator; expected as many"
                )
            return [combine(name, one, other) for one, other in zip(a, b, strict=True)]
        if isinstance(a, list):
            assert not isinstance(b, list)
            return [combine(name, one, b) for one in a]
        return [combine(name, a, one) for one in b] if isinstance(b, list) else combine(name, a, b)

    def _whole(self, tree: Tree) -> int:
        kind = tree[0]
        if kind == "whole":
            return int(tree[1])
        if kind in ("i", "n"):
            return self._i if kind == "i" else len(self._x)
        if kind == "negative":
            return -self._whole(tree[1])
        if kind == "if":
            name, left, right = tree[1]
            holds = _COMPARE[name](self._whole(left), self._whole(right))
            return self._whole(tree[2] if holds else tree[3])
        left, right = self._whole(tree[1]), self._whole(tree[2])
        if kind in ("//", "%") and right == 0:
            raise InvalidArgument(f"formula: {kind} by 0 for token {self._i}; expected another")
        value = _ARITHMETIC[kind](left, right)
        if abs(value) > _LARGEST:
            raise InvalidArgument(
                f"formula: a whole number above {_LARGEST:,} for token {self._i}; expected less"
            )
        return value

    def _missing(self, what: str, count: int) -> None:
        raise InvalidArgument(
            f"formula: token {self._i} asks for {what} of a sequence of {count}; expected 0 to "
            f"{count - 1}, at least one"
        )
