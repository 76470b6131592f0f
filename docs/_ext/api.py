"""Reference pages: `{api} anyseq.Window` stands for what the docstring of that name says."""

import inspect
import re
from functools import partial
from importlib import import_module
from typing import Any

from sphinx.application import Sphinx

from docstrings import as_rst

REFERENCE = re.compile(r"^```\{api\} (\S+)\n```$", re.MULTILINE)


def resolved(name: str) -> Any:
    """The object behind a dotted name, such as anyseq.nn.Attention."""
    module, *rest = name.split(".")
    found = import_module(module)
    for part in rest:
        found = getattr(found, part)
    return found


def _directive(match: re.Match[str]) -> str:
    name = match[1]
    thing = resolved(name)
    kind = (
        "autoexception"
        if isinstance(thing, type) and issubclass(thing, BaseException)
        else "autoclass"
        if isinstance(thing, type)
        else "autofunction"
        if inspect.isroutine(thing) or isinstance(thing, partial)
        else "autodata"
    )
    options = "\n   :no-value:" if kind == "autodata" else ""
    return f"```{{eval-rst}}\n.. {kind}:: {name}{options}\n```"


def _expand(app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = REFERENCE.sub(_directive, source[0])


def _process(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    # Data has the docstring of its type.
    lines[:] = [] if what == "data" else as_rst(lines, getattr(thing, "__annotations__", {}))


def _signature(
    app: Sphinx, what: str, name: str, thing: object, options: object, given: str, returns: str
) -> tuple[str, str] | None:
    """None to leave it as it is; what has private fields is a result, which nobody makes."""
    made_by_us = what == "class" and any(
        field.startswith("_") for field in getattr(thing, "__dataclass_fields__", {})
    )
    return ("", "") if made_by_us else None


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _expand)
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-process-signature", _signature)
    return {"parallel_read_safe": True}
