"""Paper B's patterns, by name and by how sparse they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


def patterns(
    name: str, tokens: int, sparsity: float, *, matched: bool = False
) -> tuple[Pattern, ...]:
    """What the layers cycle through.

    sparsity: as `sparsity_of` counts it, as near to this as the pattern's size ℓ allows.
    matched: this is said of MULTIHEAD and SEQUENTIAL, too; otherwise they have the ℓ of their
        UNION, and so about half of its pairs.
    """
    if name == DENSE:
        return (Full(),)
    if name == "random":
        return (Random(max(1, round((1 - sparsity) * tokens) - 1), seed=0),)
    counted = name if matched or name not in COMBINED else f"{name.partition('-')[0]}-union"
    found = _sparsities(counted, tokens)
    # starting from the sparsest: beyond that, the larger ℓ is, the more a token attends to
    sizes = range(found.index(max(found)), len(found))
    return of_size(name, 1 + min(sizes, key=lambda size: abs(found[size] - sparsity)))


def of_size(name: str, size: int) -> tuple[Pattern, ...]:
    """What the layers cycle through with ℓ = size; for all but RANDOM."""
    kind, _, combined = name.partition("-")
    pattern = _SIZED[kind](size)
    match combined:
        case "multihead":
            return (PerHead(*pattern.split()),)
        case "sequential":
            return pattern.split()
    return (pattern,)


def sparsity_of(cycle: Sequence[Pattern], tokens: int) -> float:
    """The share of all pairs that are left out, on average over layers and heads."""
    parts = [head for pattern in cycle for head in pattern.heads()]
    return sum(part.sparsity(tokens) for part in parts) / len(parts)


@lru_cache
def _sparsities(name: str, tokens: int) -> list[float]:
    """Of ℓ = 1, 2, ..., one less than the tokens."""
    return [sparsity_of(of_size(name, size), tokens) for size in range(1, tokens)]
