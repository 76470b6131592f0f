"""Paper B's patterns, by name and by how sparse they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from anyseq.patterns import Fixed, Full, Pattern, PerHead, Random, Star, Strided

DENSE = "dense"
UNIONS = ("strided-union", "fixed-union", "star", "random")
"""The patterns by themselves."""
COMBINED = ("strided-multihead", "strided-sequential", "fixed-multihead", "fixed-sequential")
"""The parts of a pattern in different heads, or in alternate layers."""

_SIZED: Mapping[str, Callable[[int], Strided | Fixed | Star]] = {
    "strided": Strided,
    "fixed": Fixed,
    "star": Star,
}


def patterns(name: str, tokens: int, sparsity: float) -> tuple[Pattern, ...]:
    """What the layers cycle through.

    sparsity: the share of all pairs that the pattern leaves out, as near to this as its size ℓ
        allows. MULTIHEAD and SEQUENTIAL have the ℓ of their UNION, and so fewer pairs in a head or
        a layer.
    """
    if name == DENSE:
        return (Full(),)
    if name == "random":
        return (Random(max(1, round((1 - sparsity) * tokens) - 1), seed=0),)
    kind, _, combined = name.partition("-")
    pattern = _sized(kind, tokens, sparsity)
    match combined:
        case "multihead":
            return (PerHead(*pattern.split()),)
        case "sequential":
            return pattern.split()
    return (pattern,)


def _sized(kind: str, tokens: int, sparsity: float) -> Strided | Fixed | Star:
    """The nearest, starting from the sparsest: beyond that, the larger ℓ is, the more a token
    attends to."""
    found = _sparsities(kind, tokens)
    sizes = range(found.index(max(found)), len(found))
    return _SIZED[kind](1 + min(sizes, key=lambda size: abs(found[size] - sparsity)))


@lru_cache
def _sparsities(kind: str, tokens: int) -> list[float]:
    """Of ℓ = 1, 2, ..., half of the tokens."""
    return [_SIZED[kind](size).sparsity(tokens) for size in range(1, tokens // 2)]
