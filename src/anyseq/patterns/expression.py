"""Patterns as people write them: "window(64) | global(0)"."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from functools import lru_cache
from inspect import signature
from typing import Any

import torch

from anyseq.errors import AnyseqError, InvalidArgument
from anyseq.patterns.algebra import Complement, Intersection, Union
from anyseq.patterns.documents import Documents
from anyseq.patterns.factored import Blocks, Fixed, Strided, Summary
from anyseq.patterns.given import FromMask
from anyseq.patterns.grids import Neighbourhood, ShiftedWindows
from anyseq.patterns.hubs import Global, Longformer, Ring, Star
from anyseq.patterns.offsets import Causal, Dilated, Full, LogSparse, Residue, Window
from anyseq.patterns.pattern import Pattern
from anyseq.patterns.per_head import PerHead
from anyseq.patterns.random import BigBird, Random

_NAMES: dict[str, type[Pattern]] = {
    cls.__name__.lower(): cls
    for cls in (
        BigBird, Blocks, Causal, Dilated, Documents, Fixed, Full, Global, LogSparse, Longformer,
        Neighbourhood, PerHead, Random, Residue, Ring, ShiftedWindows, Star, Strided, Summary,
        Window,
    )
}  # fmt: skip
_EXAMPLES: dict[type[Pattern], str] = {  # of arguments, where 8 alone will not do
    BigBird: "(64)",
    Dilated: "(4, 2)",
    Longformer: "(64, (0,))",
    Neighbourhood: "((8, 8), 1)",
    PerHead: "(window(4), causal)",
    Random: "(3, 0)",
    ShiftedWindows: "((8, 8), 4, 2)",
}
_LISTS = (Documents, Global)  # which take any number of numbers: "documents(3, 5)"

_MOST_CHARACTERS = 4096
_MOST_NESTED = 32  # brackets and ~: what reads them is recursive
_MOST_NAMES = 256


@lru_cache(maxsize=256)
def parse_pattern(text: str) -> Pattern:
    """The pattern behind an expression of names, whole numbers, |, & and ~.

    Names are the class names, in upper or lower case: "causal & window(128)", "longformer(64)",
    "~window(2)", "global(0, -1)". Nothing of it is executed.
    """
    _check_size(text)
    try:
        # "global" alone is a word of Python's own
        return _pattern(ast.parse(re.sub(r"\bglobal\b", "Global", text.strip()), mode="eval").body)
    except SyntaxError:
        raise InvalidArgument(
            f'pattern {text!r} cannot be read: expected something like "window(64) | global(0)"'
        ) from None
    except (AnyseqError, TypeError) as problem:
        raise InvalidArgument(f"pattern {text!r}: {problem}") from None


def _check_size(text: str) -> None:
    """Limits far above what people write."""
    depth = deepest = 0
    for mark in text:
        depth += {"(": 1, ")": -1}.get(mark, 0)
        deepest = max(deepest, depth)
    deepest += max((run.count("~") for run in re.findall(r"[~\s]+", text)), default=0)
    names = len(re.findall(r"[^\W\d]\w*", text))
    for what, found, most in (
        ("characters", len(text), _MOST_CHARACTERS),
        ("brackets and ~ inside one another", deepest, _MOST_NESTED),
        ("names", names, _MOST_NAMES),
    ):
        if found > most:
            raise InvalidArgument(
                f"pattern {text[:40]!r}...: {found:,} {what}; expected {most:,} at most. Larger "
                "ones can be given in Python, as anyseq.FromMask(mask)"
            )


def pattern_text(pattern: Pattern) -> str:
    """The expression that `parse_pattern` reads; the repr of a pattern that has none."""
    match pattern:
        case Union(parts):
            return " | ".join(map(pattern_text, parts))
        case Intersection(parts):
            return " & ".join(map(_in_brackets, parts))
        case Complement(part):
            return f"~{_in_brackets(part)}"
        case Window(radius=radius):
            return f"window({radius})"
        case Neighbourhood(shape, radius, "cut"):
            return f"neighbourhood({shape}, {radius})"
        case Global(numbers) | Documents(numbers):
            return f"{type(pattern).__name__.lower()}({', '.join(map(str, numbers))})"
        case FromMask(given) if isinstance(given, torch.Tensor):
            return f"a mask of {len(given)} x {len(given)}"
        case FromMask(given) if pattern.natural_length is not None:
            return f"a BlockMask of {pattern.natural_length} x {pattern.natural_length}"
        case FromMask(given):
            return f"mask_mod {getattr(given, '__name__', type(given).__name__)}"
        case PerHead(parts):
            return f"perhead({', '.join(map(pattern_text, parts))})"
    name = type(pattern).__name__.lower()
    if name not in _NAMES:
        return repr(pattern)
    values = ", ".join(repr(getattr(pattern, field.name)) for field in fields(pattern))  # type: ignore[arg-type]
    return f"{name}({values})" if values else name


def _in_brackets(pattern: Pattern) -> str:
    text = pattern_text(pattern)
    return f"({text})" if isinstance(pattern, Union | Intersection) else text


def _pattern(node: ast.expr) -> Pattern:
    match node:
        case ast.BinOp(left, ast.BitOr(), right):
            return _pattern(left) | _pattern(right)
        case ast.BinOp(left, ast.BitAnd(), right):
            return _pattern(left) & _pattern(right)
        case ast.UnaryOp(ast.Invert(), operand):
            return ~_pattern(operand)
        case ast.Name(name):
            return _made(_named(name), [], {})
        case ast.Call(ast.Name(name), arguments, keywords):
            cls = _named(name)
            values = [_value(cls, at, argument) for at, argument in enumerate(arguments)]
            if cls in _LISTS and values and not isinstance(values[0], tuple):
                values = [tuple(values)]
            return _made(
                cls,
                values,
                {str(one.arg): _value(cls, str(one.arg), one.value) for one in keywords},
            )
    raise InvalidArgument(
        f"{ast.unparse(node)} is not a pattern; expected a name such as window(64)"
    )


def _made(cls: type[Pattern], values: list[Any], named: dict[str, Any]) -> Pattern:
    try:
        signature(cls).bind(*values, **named)
    except TypeError as problem:
        raise InvalidArgument(f"{problem}; expected {_usage(cls)}") from None
    return cls(*values, **named)


def _usage(cls: type[Pattern]) -> str:
    """The syntax of a pattern: "window(radius)", "longformer(radius, tokens=(0,))"."""
    name = cls.__name__.lower()
    if cls is Global:
        return "global(token, ...), such as global(0) or global(0, -1)"
    if cls is Documents:
        return "documents(length, ...), such as documents(3, 5)"
    if cls is Window:
        return "window(radius) or window(before, after), such as window(64)"
    needs = [str(one.replace(annotation=one.empty)) for one in signature(cls).parameters.values()]
    if not needs:
        return name
    example = _EXAMPLES.get(cls, "(8)")
    return f"{name}({', '.join(needs)}), such as {name}{example}"


def _value(cls: type[Pattern], at: int | str, node: ast.expr) -> Any:
    """The value of an argument, by its place or its name."""
    match node:
        case ast.Constant(int() as value) if not isinstance(value, bool):
            return _number(value)
        case ast.UnaryOp(ast.USub(), ast.Constant(int() as value)):
            return -_number(value)
        case ast.Constant(str() as word):
            return word
        case ast.Tuple(elements):
            return tuple(_value(cls, at, element) for element in elements)
    if cls is PerHead:
        return _pattern(node)
    name = at if isinstance(at, str) else _argument(cls, at)
    raise InvalidArgument(
        f"{name} {ast.unparse(node)!r} is not a whole number; expected {_usage(cls)}"
    )


def _argument(cls: type[Pattern], at: int) -> str:
    """The name of the argument at that place; list elements, and a sole argument, are just
    "argument"."""
    if cls is Window:
        return "radius" if at == 0 else "after"
    names = list(signature(cls).parameters)
    return "argument" if cls in _LISTS or at >= len(names) else names[at]


def _number(value: int) -> int:
    if value >= 2**63:
        raise InvalidArgument("a number beyond 2^63: expected one below that")
    return value


def _named(name: str) -> type[Pattern]:
    key = name.lower().replace("_", "")
    if key not in _NAMES:
        raise InvalidArgument(f"{name} is unknown; there are {', '.join(sorted(_NAMES))}")
    return _NAMES[key]
