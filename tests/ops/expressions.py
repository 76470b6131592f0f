"""Random patterns: expressions over all named ones."""

from __future__ import annotations

from hypothesis import strategies as st

import anyseq as aq
from anyseq.patterns import (
    Coarse,
    Landmarks,
    Pattern,
    PeriodicLandmarks,
    RandomPast,
    Residue,
    Ring,
    Summary,
    UnevenBlocks,
)

small, tiny = st.integers(1, 12), st.integers(0, 3)


def documents(n: int) -> st.SearchStrategy[aq.Documents]:
    """n tokens cut at any places."""
    cuts = st.sets(st.integers(1, n - 1), max_size=4) if n > 1 else st.just(set[int]())
    return cuts.map(
        lambda at: aq.Documents(
            tuple(b - a for a, b in zip([0, *sorted(at)], [*sorted(at), n], strict=True))
        )
    )


def named(n: int) -> st.SearchStrategy[Pattern]:
    """One named pattern that fits n tokens."""
    place = st.integers(-n, n - 1)
    hubs = st.lists(place, max_size=3).map(tuple)
    return st.one_of(
        st.just(aq.Full()),
        st.just(aq.Causal()),
        st.just(aq.LogSparse()),
        small.map(aq.Window),
        st.builds(aq.Dilated, small, small),
        small.map(Residue),
        small.map(aq.Strided),
        small.map(aq.Blocks),
        small.map(Summary),
        small.map(aq.Fixed),
        small.map(Ring),
        small.map(aq.Star),
        hubs.map(aq.Global),
        st.builds(aq.Longformer, small, hubs),
        st.builds(aq.Random, small, tiny),
        st.builds(RandomPast, small, tiny),
        st.builds(aq.BigBird, small, st.sampled_from([1, 3, 5]), tiny, tiny, tiny),
        st.builds(lambda size, block: Coarse(block, aq.Window(size)), small, small),
        st.lists(small, min_size=1, max_size=3).map(lambda sizes: UnevenBlocks(tuple(sizes))),
        st.builds(
            lambda start, length, both, onward: Landmarks(both, onward, ((start, start + length),)),
            small, small, st.booleans(), st.booleans(),
        ),
        st.builds(
            lambda first, both, onward: PeriodicLandmarks(both, onward, first + 2, first, 2),
            small, st.booleans(), st.booleans(),
        ),
        documents(n),
    )  # fmt: skip


def expressions(n: int) -> st.SearchStrategy[Pattern]:
    """`|`, `&`, `~` over named patterns, the same in all heads."""
    return st.recursive(
        named(n),
        lambda inner: st.one_of(
            st.builds(lambda a, b: a | b, inner, inner),
            st.builds(lambda a, b: a & b, inner, inner),
            inner.map(lambda a: ~a),
        ),
        max_leaves=5,
    )


def by_head(n: int) -> st.SearchStrategy[Pattern]:
    """The same, or different in different heads, or an algebra of those."""
    plain = expressions(n)
    apart = st.lists(plain, min_size=1, max_size=3).map(lambda parts: aq.PerHead(*parts))
    return st.one_of(
        plain,
        apart,
        st.builds(lambda a, b: a & b, apart, plain),
        st.builds(lambda a, b: a | b, apart, apart),
        apart.map(lambda a: ~a),
    )
