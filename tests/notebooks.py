"""Pages that are notebooks (MyST text): their code cells, run in order in one process."""

from __future__ import annotations

import ast
import re
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

DOCS = Path(__file__).parent.parent / "docs"
_CELL = re.compile(r"^```\{code-cell\} ipython3\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
_OPTION = re.compile(r"^:[\w-]+:.*\n", flags=re.MULTILINE)


def pages() -> list[Path]:
    """All pages of the documentation that have code cells."""
    return [page for page in sorted(DOCS.rglob("*.md")) if cells(page)]


def cells(page: Path) -> list[str]:
    """The code of each cell, without its options (`:tags: [...]`)."""
    return [_OPTION.sub("", cell) for cell in _CELL.findall(page.read_text())]


def run(page: Path) -> list[Any]:
    """What the cells show: the value of each cell that ends in an expression, as in a notebook."""
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = []
    for number, cell in enumerate(cells(page)):
        tree = ast.parse(cell)
        *before, last = tree.body
        end = isinstance(last, ast.Expr)
        body = ast.Module(before if end else tree.body, [])
        exec(compile(body, f"{page.name}, cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(
                compile(ast.Expression(last.value), f"{page.name}, cell {number}", "eval"), names
            )
            if value is not None:
                shown.append(value)
    return shown


def png(picture: Figure) -> bytes:
    """The picture as a file."""
    file = BytesIO()
    picture.savefig(file, format="png", dpi=60)
    return file.getvalue()
