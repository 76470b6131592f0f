"""A comparison as a table, at most 80 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from math import ceil
from typing import TYPE_CHECKING

from anyseq.base import layers_text, table_html
from anyseq.verdicts.text import ANSWERS

if TYPE_CHECKING:
    from anyseq.verdicts.compare import Card

_WIDTH, _LABELS, _GAP = 80, 17, 2
_COLUMNS = 4  # beside one another; more stand below
_SMALL = 1e-6  # weights below it

_KINDS = {"all": "every function", "causal": "every causal function",
          "equivariant": "every equivariant function"}  # fmt: skip
_NORMS = {"sup": "sup norm", "lp": "L^p"}

_DILUTED = (
    "Diluted: suppose that every layer takes the plain mean of the tokens that it attends to. The "
    "weight of a pair is how much of token j is in token i when j first reaches i; it is diluted "
    "if one layer of dense attention would have given it more. Training may change weights: this "
    "is not a bound."
)
_OPERATIONS = "Multiply-adds: 2 x keys, scores and weighted values, for each feature of each head."


def comparison_rows(cards: Sequence[Card]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The property compared, and a cell for each card."""
    rows = [
        ("can it?", [f"{ANSWERS[card.universal]}: {card.reason}" for card in cards]),
        ("all pairs meet", [_meet(card) for card in cards]),
        ("last to meet", [_last(card) for card in cards]),
        ("diluted pairs", [_diluted(card) for card in cards]),
        ("weight of a pair", [_weights(card) for card in cards]),
        ("keys a token attends to", [_keys(card) for card in cards]),
        ("multiply-adds of a token", [_operations(card) for card in cards]),
        ("keys kept in a cache", [_kept(card) for card in cards]),
        ("positions", [card.positions or card.missing["positions"] for card in cards]),
    ]
    if len(_lengths(cards)) > 1:
        rows.insert(0, ("tokens", [_number(card.tokens) for card in cards]))
    if len({_asked(card) for card in cards}) > 1:
        rows.insert(0, ("asked", [_asked(card) for card in cards]))
    return tuple((label, tuple(cells)) for label, cells in rows)


def comparison_text(cards: Sequence[Card]) -> str:
    """The question, the subjects by name, and tables of a few columns."""
    lines = [*textwrap.wrap(comparison_head(cards), _WIDTH), ""]
    for card in cards:
        lines += _wrapped(f"  {card.name}  ", _subject(card))
    rows, many = comparison_rows(cards), ceil(len(cards) / ceil(len(cards) / _COLUMNS))
    for first in range(0, len(cards), many):
        part = [(label, cells[first : first + many]) for label, cells in rows]
        lines += ["", *_table([card.name for card in cards[first : first + many]], part)]
    for note in _notes(cards):
        lines += ["", *textwrap.wrap(note, _WIDTH)]
    return "\n".join(lines)


def comparison_html(cards: Sequence[Card]) -> str:
    """The same for a notebook, in one table."""
    rows = [("", *map(_subject, cards))]
    rows += [(label, *cells) for label, cells in comparison_rows(cards)]
    head = ("", *(card.name for card in cards))
    return table_html(head, rows, title=comparison_head(cards), notes=_notes(cards))


def _subject(card: Card) -> str:
    return card.subject.removeprefix(f"{_number(card.tokens)} tokens, ")


def _notes(cards: Sequence[Card]) -> list[str]:
    """The explanations of words and numbers."""
    notes = [_DILUTED + _followed(cards), _OPERATIONS]
    later = [card.name for card in cards if card.target == "all" and _sees_nothing_later(card)]
    hint = "no layer attends to later tokens; for causal functions use target='causal'"
    return [*notes, f"{', '.join(later)}: {hint}."] if later else notes


def comparison_head(cards: Sequence[Card]) -> str:
    """The length and the question, if they are the same for all."""
    parts = []
    lengths = _lengths(cards)
    if len(lengths) == 1:
        parts.append(f"{_number(*lengths)} tokens")
    if len({_asked(card) for card in cards}) == 1:
        parts.append(f"can it express {_asked(cards[0])}?")
    return ": ".join(parts)


def _table(names: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Cells are wrapped in columns of one width; rows are a blank line apart."""
    width = (_WIDTH - _LABELS) // len(names) - _GAP
    lines = _row("", names, width)
    lines.append("-" * (_LABELS + len(names) * (width + _GAP)))
    for number, (label, cells) in enumerate(rows):
        lines += [""] * (number > 0) + _row(label, cells, width)
    return lines


def _row(label: str, cells: Sequence[str], width: int) -> list[str]:
    columns = [textwrap.wrap(label, _LABELS)] + [textwrap.wrap(cell, width) for cell in cells]
    widths = [_LABELS] + [width] * len(cells)
    return [
        (" " * _GAP).join(part.ljust(w) for part, w in zip(line, widths, strict=True)).rstrip()
        for line in zip_longest(*columns, fillvalue="")
    ]


def _followed(cards: Sequence[Card]) -> str:
    """The number of tokens that the weights come from, if not all."""
    some = {
        card.dilution.tokens
        for card in cards
        if card.dilution is not None and card.dilution.tokens != card.tokens
    }
    many = " or ".join(f"{count:,}" for count in sorted(some))
    return f" Of the tokens j, {many} were followed, evenly spread." if some else ""


def _lengths(cards: Sequence[Card]) -> set[int]:
    return {card.tokens for card in cards if card.tokens is not None}


def _asked(card: Card) -> str:
    return f"{_KINDS[card.target]} in {_NORMS[card.norm]}"


def _meet(card: Card) -> str:
    if "reach" in card.missing:
        return card.missing["reach"]
    if card.layers is None:
        return "never"
    text = f"after {layers_text(card.layers)}"
    late = card.depth is not None and card.layers > card.depth
    return f"{text}; it has {card.depth}" if late else text


def _last(card: Card) -> str:
    """The first of those pairs."""
    if not card.last:
        return card.missing.get("reach", "none")
    k, j = card.last[0]
    return f"token {j:,} {'never ' * (card.layers is None)}reaches token {k:,}"


def _diluted(card: Card) -> str:
    found = card.dilution
    return card.missing["dilution"] if found is None else _percent(found.weaker)


def _weights(card: Card) -> str:
    found = card.dilution
    if found is None:
        return card.missing["dilution"]
    met = card.layers is not None and (card.depth is None or card.layers <= card.depth)
    zero = "under 1e-300" if met else "0"
    median, smallest = (_weight(one) if one else zero for one in (found.median, found.smallest))
    return f"median {median}, smallest {smallest}"


def _keys(card: Card) -> str:
    if card.costs is None:
        return card.missing["costs"]
    return "none attends" if card.costs.keys is None else f"{_number(card.costs.keys)} a layer"


def _operations(card: Card) -> str:
    if card.costs is None or card.costs.operations is None:
        return _keys(card)
    each = card.costs.operations
    return f"{_number(each)} a layer" + _in_all(each, card)


def _kept(card: Card) -> str:
    if card.costs is None:
        return card.missing["costs"]
    found = card.costs
    other = f"{layers_text(found.others)} of another kind keep{'s' * (found.others == 1)} a state"
    if found.keys is None:
        return other
    if found.kept is None:
        return "no cache: tokens attend to later ones"
    text = f"{_number(found.kept)} a layer" + _in_all(found.kept, card)
    return f"{text}; {other}" if found.others else text


def _in_all(each: float, card: Card) -> str:
    """The sum over the layers of a design with a given depth."""
    if card.depth is None or card.costs is None:
        return ""
    return f", {_number(each * card.costs.layers)} in all"


def _sees_nothing_later(card: Card) -> bool:
    return card.costs is not None and card.costs.kept is not None


def _number(value: float | None) -> str:
    """At most one digit after the point, and none after large numbers."""
    if value is None:
        return "not known"
    return f"{value:,.{int(value < 10_000)}f}".removesuffix(".0")


def _percent(share: float) -> str:
    """Never rounded to 0% or 100%."""
    if 0 < share < 0.005:
        return "under 1%"
    if 0.995 <= share < 1:
        return "over 99%"
    return f"{share:.0%}"


def _weight(weight: float) -> str:
    """Such as "1/64", or, of small ones, "2e-23"."""
    if weight < _SMALL:
        return f"{weight:.0e}"
    return "1" if weight == 1 else f"1/{1 / weight:,.0f}"


def _wrapped(start: str, text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=start, subsequent_indent=" " * len(start))
