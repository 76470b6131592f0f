"""Which value each class of a refinement takes, and for which pairs it is wrong.

Output i of f at a sequence of cells depends on a *case*: for every f that is the pair (sequence, i)
itself, for causal f (the sequence up to i, i), for f that commutes with permutations (the own cell,
the multiset of all cells). A class whose pairs all have one case is served exactly. Otherwise it
takes the value of the case that most of its pairs have; the other pairs are *lost*: there |f - T|
is at most 2 max|f|, as T is a value of f somewhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyseq.construct.counting.multisets import number


@dataclass(frozen=True, eq=False)
class Choice:
    """source: (S, n) the pair, S-major, whose value a pair gets; lost: (S, n) bool."""

    source: torch.Tensor
    lost: torch.Tensor


def cases(cells: torch.Tensor, per_token: int, kind: str) -> torch.Tensor:
    """(S, n) int64: equal where f must be equal; cells (S, n) are all sequences, in the order of
    their numbers, the last token fastest."""
    count, tokens = cells.shape
    places = torch.arange(tokens)
    if kind == "equivariant":
        return number(cells.sort(dim=1).values, per_token)[:, None] * per_token + cells
    sequence = torch.arange(count)[:, None].expand(-1, tokens)
    if kind == "causal":
        sequence = sequence // torch.tensor([per_token ** (tokens - 1 - i) for i in range(tokens)])
    return sequence * tokens + places


def choose(classes: torch.Tensor, case: torch.Tensor) -> Choice:
    """classes, case: (S, n) int64."""
    of_class, of_case = classes.flatten(), case.flatten()
    pairs, entries = int(of_case.max()) + 1, torch.arange(len(of_case))
    kinds, kind, counts = (of_class * pairs + of_case).unique(
        return_inverse=True, return_counts=True
    )
    first = torch.zeros_like(kinds).scatter_reduce(0, kind, entries, "amin", include_self=False)
    # ranks by count are all different, so that each class has one kind of the highest rank
    order = counts.argsort(stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order))
    highest = torch.zeros(int(of_class.max()) + 1, dtype=torch.int64)
    highest = highest.scatter_reduce(0, kinds // pairs, rank, "amax")
    chosen = order[highest[of_class]]
    return Choice(first[chosen].view_as(classes), (chosen != kind).view_as(classes))
