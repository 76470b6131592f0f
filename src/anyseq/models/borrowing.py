"""Layers that attend to the keys and values of earlier layers: given x alone they mix nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anyseq.models.calls import Call
from anyseq.models.dependence import Step

_HIDDEN = 1e3  # a score that is lower by more gets no weight


def with_borrowing(found: Sequence[Step], root: Call) -> list[Step]:
    """The steps, with those among them whose scores are of all tokens against all, though they
    seem to map each token by itself."""
    mixing = [step for step in found if step.sees is not None]
    inside = {id(call) for step in mixing for call in step.call.walk()}
    lengths = {len(step.sees) for step in mixing if step.sees is not None}
    order = {id(call): place for place, (call, _) in enumerate(_walk(root, ()))}
    borrowing = []
    for call, within in _walk(root, ()):
        if id(call) in inside or not call.is_sequence:
            continue
        for scores in call.scores[:1]:
            queries, keys = scores.shape[-2:]
            if queries == keys and queries in lengths:
                top = scores.amax(-1, keepdim=True)
                seen = (scores > top - _HIDDEN).flatten(0, -3).any(0)
                borrowing.append(Step(call, seen.cpu().numpy(), within, borrows=True))
    taken = {id(call) for step in borrowing for call in step.call.walk()}
    kept = [step for step in found if id(step.call) not in taken]
    return sorted([*kept, *borrowing], key=lambda step: order[id(step.call)])


def _walk(call: Call, within: tuple[Call, ...]) -> Iterator[tuple[Call, tuple[Call, ...]]]:
    yield call, within
    for part in call.parts:
        yield from _walk(part, (*within, call))
