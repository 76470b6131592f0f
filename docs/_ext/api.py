"""Reference pages: `{api} anyseq.Window` stands for what the docstring of that name says.

Docstrings of this library are plain text: `name` in backticks is code, a paragraph "name: text"
says what an argument or an attribute is, and nothing else is markup.
"""

import inspect
import re
from functools import partial
from importlib import import_module
from typing import Any

from sphinx.application import Sphinx

REFERENCE = re.compile(r"^```\{api\} (\S+)\n```$", re.MULTILINE)
ENTRY = re.compile(r"^(\w+(?:(?:, | and )\w+)*): (?=\S)")
LITERAL = re.compile(r"`+([^`]+)`+")


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


def _text(line: str) -> str:
    """A line with its code marked for reStructuredText, and nothing else taken as markup."""
    parts = LITERAL.split(line)
    plain = (re.sub(r"([\\*_|`])", r"\\\1", part) for part in parts[::2])
    code = (f"\\ ``{part}``\\ " for part in parts[1::2])
    words = [next(plain)]
    for span, rest in zip(code, plain, strict=True):
        words += [span, rest]
    return "".join(words)


def as_rst(lines: list[str]) -> list[str]:
    """A docstring of ours as reStructuredText: entries "name: text" become a definition list."""
    out: list[str] = []
    inside = code = False
    for number, line in enumerate(lines):
        entry = ENTRY.match(line)
        indented = line.startswith(" ")
        if not line.strip():
            inside = inside and number + 1 < len(lines) and lines[number + 1].startswith(" ")
            out.append("")
        elif (code and indented) or line.startswith((">>> ", "... ")):
            out.append(line)
        elif entry and len(entry[1]) < 60:
            out += ["", " and ".join(f"``{n}``" for n in re.split(", | and ", entry[1]))]
            out.append("    " + _text(line[entry.end() :]))
            inside = True
        elif inside:
            if not indented:
                out.append("")
                inside = False
            out.append(("    " if indented else "") + _text(line.strip()))
        else:
            out.append(_text(line))
        code = line.endswith("::") or (code and (indented or not line.strip()))
    return out


def _process(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    lines[:] = [] if what == "data" else as_rst(lines)  # data has the docstring of its type


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _expand)
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True}
