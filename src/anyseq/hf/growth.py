"""Whether a pattern may be used with a cache of keys and values."""

from __future__ import annotations

from anyseq.patterns import (
    Complement,
    Composite,
    FromMask,
    Global,
    Intersection,
    LengthFree,
    Pattern,
    PerHead,
    Union,
)


def can_grow(pattern: Pattern, causal: bool) -> bool:
    """Rows keep their edges as n grows, so that what was cached for old tokens stays true.

    Under causality a row has no edges to tokens still to come; it is then enough that the rule for
    (i, j) does not ask for n.
    """
    return pattern.prefix_stable or (causal and _ignores_length(pattern))


def _ignores_length(pattern: Pattern) -> bool:
    match pattern:
        case LengthFree():
            return True
        case FromMask():
            return pattern.natural_length is None
        case Global():
            return all(token >= 0 for token in pattern.tokens)
        case Union() | Intersection() | PerHead():
            return all(map(_ignores_length, pattern.parts))
        case Composite():
            return all(map(_ignores_length, pattern.split()))
        case Complement():
            return _ignores_length(pattern.part)
        case _:
            return False
