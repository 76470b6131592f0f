"""`anyseq.compare`: designs and models side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from os.path import exists
from typing import Any, TypeVar

from anyseq.base import OutOfTime, at_least_one, within
from anyseq.design import Design, parse_design
from anyseq.errors import InvalidArgument
from anyseq.graph import Dilution, TooManyEdges, dilution
from anyseq.verdicts.check import NoLength, check
from anyseq.verdicts.compare_text import comparison_html, comparison_rows, comparison_text
from anyseq.verdicts.costs import Costs, costs
from anyseq.verdicts.positions_from import positions_from
from anyseq.verdicts.verdict import SECONDS, Verdict

T = TypeVar("T")

_MOST_NAMES = 26


@dataclass(frozen=True)
class Card:
    """What is known about one subject.

    subject: in words, as it was given, or as `check` names it.
    universal, norm, target, reason: the answer of `check`, and to which question.
    layers: the fewest layers after which all required pairs are reached (for the target "causal",
        from every earlier token to every token); None if they never are, or if this is not known.
    depth: the number of layers; None if any number.
    last: up to 8 pairs (k, j) such that token k is among the last to be reached by token j, or, if
        `layers` is None, one that never is.
    dilution: how weak the shortest routes are (`anyseq.graph.Dilution`).
    costs: connections, operations and keys kept (`anyseq.verdicts.Costs`).
    positions: where the tokens get their positions from, in words.
    missing: why `reach`, `dilution`, `costs` or `positions` are not known, by name.
    """

    name: str
    subject: str
    tokens: int | None
    universal: bool | None
    norm: str
    target: str
    reason: str
    layers: int | None = None
    depth: int | None = None
    last: tuple[tuple[int, int], ...] = ()
    dilution: Dilution | None = None
    costs: Costs | None = None
    positions: str | None = None
    missing: dict[str, str] = field(default_factory=dict)
    design: Design | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready summary."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        del values["design"]
        if self.dilution is not None:
            values["dilution"] = asdict(self.dilution)
        if self.costs is not None:
            values["costs"] = asdict(self.costs) | {"operations": self.costs.operations}
        return values | {"last": [list(pair) for pair in self.last]}


@dataclass(frozen=True)
class Comparison:
    """A report card: one column for each subject. `print` shows it, `anyseq.show` draws it."""

    cards: tuple[Card, ...]

    @property
    def rows(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The property compared, in words, and a cell for each subject."""
        return comparison_rows(self.cards)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready summary."""
        return {"subjects": [card.to_dict() for card in self.cards]}

    def __str__(self) -> str:
        return comparison_text(self.cards)

    def _repr_html_(self) -> str:
        return comparison_html(self.cards)


def compare(
    *subjects: Any,
    tokens: int | None = None,
    norm: str = "sup",
    target: str | None = None,
    names: Sequence[str] | None = None,
    seconds: float = SECONDS,
) -> Comparison:
    """Designs and models side by side: what they can express, after how many layers every token
    reaches every token, how weak the routes are, what a token costs, and where positions come from.

    subjects: each whatever `check` takes, or a design in words, as `parse_design` reads it:
        "causal & window(64), rope, bos, depth 12".
    tokens: the length, if a subject does not determine it.
    norm, target: as in `check`; unless given, the target is that of `check`.
    names: one for each subject; A, B, C, ... unless given.
    seconds: the time for each verdict, and as much again for the rest of its column. What is not
        found by then is "not known".
    """
    if not subjects:
        raise InvalidArgument("subjects: none were given; expected one or more designs or models")
    if tokens is not None:
        at_least_one("tokens", tokens)
    cards = []
    for number, (subject, name) in enumerate(
        zip(subjects, _names(names, len(subjects)), strict=True)
    ):
        try:
            verdict = _judged(subject, tokens, norm, target, seconds)
        except InvalidArgument as problem:
            raise type(problem)(f"subject {number + 1}: {problem}") from None
        in_words = verdict.design is not None and _in_words(subject)
        card = _card(name, verdict)
        cards.append(replace(card, subject=subject) if in_words else card)
    return Comparison(tuple(cards))


def _names(names: Sequence[str] | None, count: int) -> list[str]:
    if names is None:
        letters = [chr(ord("A") + number) for number in range(_MOST_NAMES)]
        return letters[:count] if count <= _MOST_NAMES else [f"{n + 1}" for n in range(count)]
    if isinstance(names, str) or len(names) != count:
        raise InvalidArgument(f"names={names!r}: expected a list of {count}, one for each subject")
    return list(names)


def _in_words(subject: Any) -> bool:
    """Whether it is a design in words, and not the path of a config."""
    if not isinstance(subject, str):
        return False
    return not (subject.endswith(".json") or exists(subject))


def _judged(
    subject: Any, tokens: int | None, norm: str, target: str | None, seconds: float
) -> Verdict:
    if _in_words(subject):
        if tokens is None:
            raise NoLength(f"tokens=None: give the number of tokens; {subject!r} fits any number")
        subject, tokens = _spoken(subject, tokens), None
    return check(subject, norm=norm, target=target, tokens=tokens, seconds=seconds)


def _spoken(words: str, tokens: int) -> Design:
    try:
        return parse_design(words, tokens)
    except InvalidArgument as problem:
        raise InvalidArgument(f"{problem}; and there is no file {words!r}") from None


def _card(name: str, verdict: Verdict) -> Card:
    answer = {one: getattr(verdict, one) for one in
              ("subject", "universal", "norm", "target", "reason")}  # fmt: skip
    design, reach = verdict.design, verdict.reach
    if design is None:
        why = dict.fromkeys(_FACTS, "no design describes it")
        return Card(name, tokens=None, missing=why, **answer)
    missing = {} if reach is not None else {"reach": _late(verdict)}

    def known(fact: str, find: Callable[[], T]) -> T | None:
        try:
            return find()
        except OutOfTime:
            missing[fact] = _late(verdict)
        except TooManyEdges:
            missing[fact] = "too many connections: use fewer tokens"
        return None

    with within(verdict.seconds):
        wanted = "causal" if verdict.target == "causal" else "all"
        spread = known("dilution", lambda: dilution(design, wanted))
        if spread is None:
            one = design.tokens == 1
            why_not = "only one token" if one else "not every layer takes a weighted mean"
            missing.setdefault("dilution", why_not)
        return Card(
            name,
            tokens=design.tokens,
            layers=None if reach is None else reach.layers,
            depth=design.depth,
            last=() if reach is None else _last(reach.unreached, reach.last),
            dilution=spread,
            costs=known("costs", lambda: costs(design)),
            positions=known("positions", lambda: positions_from(design)),
            missing=missing,
            design=design,
            **answer,
        )


_FACTS = ("reach", "dilution", "costs", "positions")


def _late(verdict: Verdict) -> str:
    return f"not found in {verdict.seconds:g} s"


def _last(
    never: tuple[int, int] | None, last: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, int], ...]:
    return last if never is None else (never,)
