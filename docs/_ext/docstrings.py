"""Docstrings of this library as reStructuredText.

They are plain text: `name` in backticks is code, a paragraph "name: text" says what an argument or
an attribute is, and nothing else is markup.
"""

import re
from collections.abc import Container

ENTRY = re.compile(r"^(\w+(?:(?:, | and )\w+)*): (?=\S)")
WITHIN = re.compile(r"(?<=[.)]) (?=(\w+)(?:, \w+)*: \S)")
LITERAL = re.compile(r"`+([^`]+)`+")


def _text(line: str) -> str:
    """A line with its code marked for reStructuredText, and nothing else taken as markup."""
    parts = LITERAL.split(line)
    plain = (re.sub(r"([\\*_|`])", r"\\\1", part) for part in parts[::2])
    code = (f"\\ ``{part}``\\ " for part in parts[1::2])
    words = [next(plain)]
    for span, rest in zip(code, plain, strict=True):
        words += [span, rest]
    return "".join(words)


def _one_entry_a_line(lines: list[str], fields: Container[str]) -> list[str]:
    """Entries may follow one another on a line: "name: text. other: text", for fields."""
    out = []
    for line in lines:
        begin = 0
        for match in WITHIN.finditer(line):
            if match[1] in fields:
                out.append(line[begin : match.start()])
                begin = match.end()
        out.append(line[begin:])
    return out


def as_rst(lines: list[str], fields: Container[str] = ()) -> list[str]:
    """A docstring of ours as reStructuredText: entries "name: text" become a definition list."""
    out: list[str] = []
    inside = code = False
    lines = _one_entry_a_line(lines, fields)
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
