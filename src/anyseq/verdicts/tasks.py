"""What a "no" means in task units: the highest possible accuracy of a network, and its lowest
loss."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from anyseq.base import rounded_down
from anyseq.design import Design
from anyseq.patterns import Blocks, Intersection, Pattern
from anyseq.verdicts.question import Question


@dataclass(frozen=True)
class Task:
    """A task at which no network of a design does better than this.

    task: the task, in words.
    accuracy: the share of right answers, at most.
    loss: the cross entropy in nats, at least. Numbers, or formulas where K symbols are equally
        likely.
    """

    task: str
    accuracy: float | str
    loss: float | str

    def __str__(self) -> str:
        share, loss = self.accuracy, self.loss
        share = share if isinstance(share, str) else f"1/{round(1 / share):,}"
        loss = loss if isinstance(loss, str) else rounded_down(loss)
        return f"{self.task}: accuracy at most {share}, loss at least {loss} nats"


def tasks(question: Question) -> tuple[Task, ...]:
    """The tasks that the graph of a design rules out, whatever its weights."""
    found = []
    if question.target != "equivariant":
        found += [_copying(question, pair) for pair in _unreached(question)]
    if question.norm == "sup" and question.target != "equivariant":
        found += _naming(question)
    return tuple(found)


def _unreached(question: Question) -> list[tuple[int, int]]:
    """A pair (k, j), if any, such that output k is read and token j has not reached it."""
    reach, depth = question.reach, question.design.depth
    if reach.layers is None:
        pairs = [] if reach.unreached is None else [reach.unreached]
    else:
        pairs = list(reach.last[:1]) if depth is not None and reach.layers > depth else []
    return [pair for pair in pairs if question.readout in (None, pair[0])]


def _copying(question: Question, pair: tuple[int, int]) -> Task:
    """Output k is independent of x_j, if the other tokens are: it guesses among K symbols."""
    k, j = pair
    design = question.design
    size, far = _chunk(design), _receptive_field(design)
    if size is not None and k // size != j // size:
        says = f"copy a token across the border of two blocks of {size:,}"
    elif far is not None and k - j > far:
        says = f"copy a token from more than {far:,} places back"
    elif j > k:
        says = f"copy token {j:,} to an earlier place, {k:,}"
    else:
        says = f"copy token {j:,} to token {k:,}"
    says += ", one of K equally likely symbols, independent of the others"
    return Task(says, "1/K", "log K")


def _naming(question: Question) -> list[Task]:
    """On equal tokens the outputs of a class are equal: the answer is right at one place of it."""
    if question.knows_positions or question.readout is not None:
        return []
    counts = np.unique(question.refinement.limit, return_counts=True)[1]
    most = int(counts.max())
    if most == 1:
        return []
    says = f"say at which of {most:,} places, all equally likely, a token is, where all are equal"
    if question.is_causal:
        says = f"count equal tokens, up to {most:,} of them, all counts being equally likely"
    return [Task(says, 1 / most, log(most))]


def _chunk(design: Design) -> int | None:
    """The size of the blocks that every layer keeps within; None if there is none."""
    sizes = {_block_size(pattern) for pattern in design.cycle}
    return sizes.pop() if len(sizes) == 1 and not design.bos else None


def _block_size(pattern: Pattern) -> int | None:
    parts = pattern.parts if isinstance(pattern, Intersection) else (pattern,)
    return next((part.size for part in parts if isinstance(part, Blocks)), None)


def _receptive_field(design: Design) -> int | None:
    """How many places back all layers together reach, where every layer attends to a bounded number
    of them, and none to all; None where offsets do not determine it."""
    if design.depth is None:
        return None
    sizes = []
    for pattern in design.cycle:
        offsets = pattern.offsets(design.size)
        if offsets is None:
            return None
        seen = np.flatnonzero(offsets.numpy()) - (design.size - 1)
        sizes.append(max(int(seen.max(initial=0)), 0))
    return sum(sizes[layer % len(sizes)] for layer in range(design.depth))
