"""Formulas typed in, such as `max(x[0], x[1]) + 0.5*sin(3*x[i])`.

A formula says the output of token i, for sequences of n tokens of one feature in [0, 1]. It is
parsed by Python's own parser and then copied, node by node, into a `Tree` of the few kinds below:
what is not among them is an error that names its column. Nothing is compiled or evaluated by Python
at any time.

    numbers     0.5, pi, e, i (this token, from 0), n (how many tokens)
    tokens      x[i], x[0], x[n-1-i]
    sequences   x, x[:i+1], sort(x), and what is done to each entry: sin(x), x - x[i]
    arithmetic  + - * /, ** with a whole number from 0 to 8, // and % for whole numbers
    functions   sin cos exp log sqrt abs tanh sigmoid relu; max and min of numbers or of a sequence;
                sum, mean and sort of a sequence
    cases       a if i < n-1 else b, where the condition has no x: f must be continuous
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import torch

from anyseq.errors import InvalidArgument
from anyseq.play.bounds import Constants, constants_of
from anyseq.play.tree import ENTRYWISE, OF_SEQUENCE, Tree, Walk
from anyseq.play.values import Values

LONGEST = 300
MOST_NODES = 200
DEEPEST = 60
LARGEST_POWER = 8
LARGEST_NUMBER = 1e6

_NAMED = {"pi": math.pi, "e": math.e}
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
}
_WHOLE_OPERATORS: dict[type[ast.AST], str] = {ast.FloorDiv: "//", ast.Mod: "%"}
_COMPARISONS: dict[type[ast.AST], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_CHARACTERS = re.compile(r"[0-9A-Za-z_.+\-*/%()\[\],:<>=! ]*")
_KNOWN = ", ".join(["x", "i", "n", *_NAMED, *ENTRYWISE, "max", "min", *OF_SEQUENCE])


class Kind(IntEnum):
    """What a part of a formula is: a whole number made of i, n and literals, any number, or a
    sequence of them."""

    WHOLE = 0
    NUMBER = 1
    SEQUENCE = 2


@dataclass(frozen=True)
class Formula:
    """A formula, called like any function f: (batch, tokens, 1) -> (batch, tokens, 1)."""

    text: str
    tree: Tree

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape
        entries = list(x[..., 0].unbind(1))
        outputs = [Walk(Values(), entries, i).number(self.tree) for i in range(tokens)]
        return torch.stack([y.expand(batch) for y in outputs], dim=1)[..., None]

    def constants(self, tokens: int) -> Constants:
        """What is proved of how it varies; also finds tokens that are not there."""
        return constants_of(self.tree, tokens)


def parse(text: str) -> Formula:
    """The formula, or an InvalidArgument that says where it is wrong and what was expected."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidArgument(f"formula {text!r}: expected text such as max(x[0], x[1])")
    if len(text) > LONGEST:
        raise InvalidArgument(
            f"formula: {len(text)} characters; expected at most {LONGEST}: shorten it"
        )
    allowed = _CHARACTERS.match(text)
    assert allowed is not None
    if allowed.end() < len(text):
        at = allowed.end()
        raise _wrong(at, f"{text[at]!r}", "letters, digits and + - * / % ( ) [ ] , : < > = .")
    start = len(text) - len(text.lstrip())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the parser, about its own future
            parsed = ast.parse(text.strip(), mode="eval")
    except SyntaxError as problem:
        at = start + problem.offset - 1 if problem.offset else len(text)  # 0: it ends too soon
        raise _wrong(at, "this cannot be read", "one formula") from None
    except (ValueError, RecursionError, MemoryError):
        raise InvalidArgument("formula: it cannot be read; expected one formula") from None
    tree, kind = _Reader(start).read(parsed.body, 0)
    if kind == Kind.SEQUENCE:
        raise _wrong(
            start, "a sequence", "one number for token i, such as x[i], mean(x) or sort(x)[i]"
        )
    return Formula(text.strip(), tree)


def _wrong(at: int, came: str, expected: str) -> InvalidArgument:
    return InvalidArgument(f"formula, column {at + 1}: {came}; expected {expected}")


class _Reader:
    """Copies Python's nodes into a tree, and knows of each part what kind it is."""

    def __init__(self, start: int) -> None:
        self._start, self._nodes = start, 0

    def read(self, node: ast.expr, depth: int) -> tuple[Tree, Kind]:
        self._nodes += 1
        if depth > DEEPEST:
            raise self._wrong(node, f"over {DEEPEST} levels of nesting", "a flatter formula")
        if self._nodes > MOST_NODES:
            raise self._wrong(node, f"over {MOST_NODES} parts", "a shorter formula")
        below = depth + 1
        match node:
            case ast.Constant():
                return self._constant(node)
            case ast.Name():
                return self._name(node)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                inner, kind = self.read(node.operand, below)
                minus = isinstance(node.op, ast.USub)
                return (["negative", inner] if minus else inner), kind
            case ast.BinOp():
                return self._operation(node, below)
            case ast.Call():
                return self._call(node, below)
            case ast.Subscript():
                return self._subscript(node, below)
            case ast.IfExp():
                return self._cases(node, below)
        raise self._wrong(
            node, f"{type(node).__name__} has no place in a formula", f"one of {_KNOWN}"
        )

    def _constant(self, node: ast.Constant) -> tuple[Tree, Kind]:
        value: Any = node.value
        if type(value) not in (int, float) or not abs(value) <= LARGEST_NUMBER:
            raise self._wrong(node, "this literal", f"a number up to {LARGEST_NUMBER:g}")
        if isinstance(value, int):
            return ["whole", value], Kind.WHOLE
        return ["number", value], Kind.NUMBER

    def _name(self, node: ast.Name) -> tuple[Tree, Kind]:
        if node.id in ("i", "n"):
            return [node.id], Kind.WHOLE
        if node.id == "x":
            return ["x"], Kind.SEQUENCE
        if node.id in _NAMED:
            return ["number", _NAMED[node.id]], Kind.NUMBER
        raise self._wrong(node, f"the name {node.id!r}", f"one of {_KNOWN}")

    def _operation(self, node: ast.BinOp, depth: int) -> tuple[Tree, Kind]:
        if isinstance(node.op, ast.Pow):
            inner, kind = self.read(node.left, depth)
            power = node.right.value if isinstance(node.right, ast.Constant) else None
            if type(power) is not int or not 0 <= power <= LARGEST_POWER:
                expected = f"a whole number from 0 to {LARGEST_POWER}; exp and sqrt are functions"
                raise self._wrong(node.right, "this exponent", expected)
            return ["power", inner, power], max(kind, Kind.NUMBER)
        (left, first), (right, second) = self.read(node.left, depth), self.read(node.right, depth)
        kind = max(first, second)
        if type(node.op) in _WHOLE_OPERATORS:
            name = _WHOLE_OPERATORS[type(node.op)]
            if kind != Kind.WHOLE:
                raise self._wrong(
                    node, f"{name} jumps", "whole numbers made of i and n on both sides"
                )
            return [name, left, right], kind
        if type(node.op) not in _OPERATORS:
            raise self._wrong(node, "this operator", "+ - * / ** // or %")
        if isinstance(node.op, ast.Div):
            kind = max(kind, Kind.NUMBER)
        return [_OPERATORS[type(node.op)], left, right], kind

    def _call(self, node: ast.Call, depth: int) -> tuple[Tree, Kind]:
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name not in (*ENTRYWISE, "max", "min", *OF_SEQUENCE):
            named = "this call" if name is None else f"a call of {name!r}"
            raise self._wrong(node.func, named, f"one of {_KNOWN}")
        if node.keywords or not node.args:
            raise self._wrong(
                node, f"the arguments of {name}", f"{name}(...) with unnamed arguments"
            )
        parts = [self.read(argument, depth) for argument in node.args]
        trees, kinds = [tree for tree, _ in parts], [kind for _, kind in parts]
        if name in ENTRYWISE:
            if len(parts) > 1:
                raise self._wrong(node, f"{len(parts)} arguments", f"one argument of {name}")
            return [name, trees[0]], max(kinds[0], Kind.NUMBER)
        one_sequence = kinds == [Kind.SEQUENCE]
        if name in OF_SEQUENCE and not one_sequence:
            raise self._wrong(node, f"what {name} was given", f"one sequence, such as {name}(x)")
        if not one_sequence and (Kind.SEQUENCE in kinds or len(parts) < 2):
            raise self._wrong(
                node, f"what {name} was given", "numbers, two or more, or one sequence"
            )
        tree = [name, trees[0]] if one_sequence else [name, ["list", *trees]]
        return tree, Kind.SEQUENCE if name == "sort" else Kind.NUMBER

    def _subscript(self, node: ast.Subscript, depth: int) -> tuple[Tree, Kind]:
        inner, kind = self.read(node.value, depth)
        if kind != Kind.SEQUENCE:
            raise self._wrong(node.value, "this has no entries", "a sequence before [, such as x")
        if isinstance(node.slice, ast.Slice):
            if node.slice.step is not None:
                raise self._wrong(node.slice.step, "a step", "x[a:b]; x[n-1-i] counts from the end")
            ends = (node.slice.lower, node.slice.upper)
            trees = [None if end is None else self._whole(end, depth) for end in ends]
            return ["slice", inner, *trees], Kind.SEQUENCE
        return ["entry", inner, self._whole(node.slice, depth)], Kind.NUMBER

    def _cases(self, node: ast.IfExp, depth: int) -> tuple[Tree, Kind]:
        test = node.test
        if not isinstance(test, ast.Compare) or len(test.ops) != 1:
            raise self._wrong(test, "this condition", "one comparison, such as i < n-1")
        if type(test.ops[0]) not in _COMPARISONS:
            raise self._wrong(test, "this comparison", "one of < <= > >= == !=")
        left, right = self._whole(test.left, depth), self._whole(test.comparators[0], depth)
        condition = [_COMPARISONS[type(test.ops[0])], left, right]
        (yes, first), (no, second) = self.read(node.body, depth), self.read(node.orelse, depth)
        if (first == Kind.SEQUENCE) != (second == Kind.SEQUENCE):
            raise self._wrong(
                node, "a number in one case, a sequence in the other", "two of a kind"
            )
        return ["if", condition, yes, no], max(first, second)

    def _whole(self, node: ast.expr, depth: int) -> Tree:
        tree, kind = self.read(node, depth)
        if kind != Kind.WHOLE:
            raise self._wrong(node, "this", "a whole number made of i, n and digits, such as n-1-i")
        return tree

    def _wrong(self, node: ast.AST, came: str, expected: str) -> InvalidArgument:
        return _wrong(self._start + getattr(node, "col_offset", 0), came, expected)
