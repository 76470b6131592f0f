"""Plain HTML for notebooks, legible in light and dark: it sets no colour of text or ground."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_CELL = "text-align:{}; vertical-align:top; padding:0.2em 0.8em 0.2em 0"
_PLAIN = "font-family:ui-monospace, monospace; white-space:pre; overflow-x:auto; line-height:1.35"


def text_html(text: str) -> str:
    """Text as it is printed, such as a paragraph with columns."""
    return f'<pre style="{_PLAIN}">{escape(text)}</pre>'


def table_html(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    notes: Sequence[str] = (),
) -> str:
    """A table: the first column to the left, numbers to the right, other text to the left; above it
    a title, below it notes. Everything is escaped."""
    numbers = [all(_is_number(row[column]) for row in rows) for column in range(len(head))]

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f'<{tag} style="{_CELL.format("right" if number else "left")}">{_lines(cell)}</{tag}>'
            for cell, number in zip(cells, numbers, strict=True)
        )

    parts = [f"<p><strong>{_lines(title)}</strong></p>"] if title else []
    parts.append('<table style="border-collapse:collapse">')
    if any(head):
        parts.append(f"<thead><tr>{line(head, 'th')}</tr></thead>")
    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    parts.append(f"<tbody>{body}</tbody></table>")
    parts += [f"<p>{_lines(note)}</p>" for note in notes]
    return "\n".join(parts)


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.replace(",", "")[:1].isdigit()


def _lines(text: str) -> str:
    return escape(text).replace("\n", "<br>")
