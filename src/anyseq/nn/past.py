"""What patterns need of earlier tokens: whether rows keep them, where they count from, for how long
a key is needed."""

from __future__ import annotations

from collections.abc import Callable

import torch

from anyseq.patterns import (
    BigBird,
    Coarse,
    Complement,
    Composite,
    FromMask,
    Global,
    Intersection,
    Landmarks,
    LengthFree,
    OffsetPattern,
    Pattern,
    PerHead,
    Summary,
    Union,
)

_BLOCKS = 1024  # at most so many groups of keys, whose last readers are looked for together

LastReader = Callable[[torch.Tensor], torch.Tensor]
"""(keys,) positions of keys -> (keys,) an upper bound of the positions of queries that attend to
them."""


def keeps_its_past(pattern: Pattern) -> bool:
    """Whether the rows of pattern & Causal are sure to keep their edges as n grows.

    Call P stable if, for j <= i, whether i attends to j is the same for every n > i. A rule that
    does not mention n is stable; unions, intersections and complements of stable patterns are,
    entry by entry; and blocks of tokens are, if the pattern of the blocks is. `Summary` mentions n
    for the key n-1 only, which for j <= i is the query itself, and is attended to anyway;
    `Landmarks` leaves out only what lies beyond n. Everything else counts as not stable: Ring
    closes at n, Random draws among n, Global may count from the end.
    """
    return _throughout(pattern, _keeps_its_past)


def _keeps_its_past(pattern: Pattern) -> bool:
    if isinstance(pattern, Coarse):
        return keeps_its_past(pattern.pattern)
    if isinstance(pattern, BigBird):
        return pattern.random == 0
    if isinstance(pattern, FromMask):
        return not isinstance(pattern.given, torch.Tensor)
    if _counts_from_the_start(pattern) or pattern.prefix_stable:
        return True
    return isinstance(pattern, LengthFree | Summary | Landmarks)


def ignores_length(pattern: Pattern) -> bool:
    """Whether a row is sure to have the same edges for every n that has room for them."""
    return _throughout(
        pattern, lambda part: isinstance(part, LengthFree) or _counts_from_the_start(part)
    )


def counts_offsets_only(pattern: Pattern) -> bool:
    """Whether the mask is sure to depend on i - j only, in the same way for every n: then it does
    not matter where a sequence begins, or what stands before it."""
    return _throughout(pattern, lambda part: isinstance(part, OffsetPattern))


def _counts_from_the_start(pattern: Pattern) -> bool:
    return isinstance(pattern, Global) and all(token >= 0 for token in pattern.tokens)


def _throughout(pattern: Pattern, rule: Callable[[Pattern], bool]) -> bool:
    """Whether the rule holds for all that a pattern is made of by |, &, ~ and by heads: each of
    these depends on one entry (i, j) at a time."""
    if isinstance(pattern, Complement):
        return _throughout(pattern.part, rule)
    parts: tuple[Pattern, ...] = ()
    if isinstance(pattern, Union | Intersection | PerHead):
        parts = pattern.parts
    elif isinstance(pattern, Composite):
        parts = tuple(pattern.split())
    return all(_throughout(part, rule) for part in parts) if parts else rule(pattern)


def last_reader(pattern: Pattern, n: int) -> LastReader | None:
    """Which queries among n tokens come last to attend to a key; None if those at the end do."""
    if pattern.differs:
        return None
    if counts_offsets_only(pattern):
        offsets = torch.stack([_offsets(head, n) for head in pattern.heads()]).any(0)
        back = offsets[n - 1 :].nonzero()
        reach = int(back.max()) if len(back) else 0
        return None if reach >= n - 1 else lambda keys: keys + reach
    size = max(4, -(-n // _BLOCKS))
    some = torch.stack([head.blocks(n, size).some_maybe for head in pattern.heads()]).any(0)
    rows = torch.arange(1, len(some) + 1)[:, None]
    last = (some * rows).amax(0) * size - 1  # the end of the last block of queries
    if bool((last >= n - 1).all()):
        return None
    return lambda keys: last[keys // size]


def _offsets(head: Pattern, n: int) -> torch.Tensor:
    offsets = head.offsets(n)
    assert offsets is not None  # of a pattern that counts offsets only
    return offsets
