"""Small random designs for the tests of the graph."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st

from anyseq.design import Design
from anyseq.patterns import (
    Causal,
    Dilated,
    Full,
    Global,
    Longformer,
    Pattern,
    PerHead,
    Residue,
    Ring,
    Star,
    Window,
)

NAMED = (
    Full(),
    Causal(),
    Window(1),
    Window(2),
    Dilated(1, 2),
    Residue(3),
    Ring(1),
    Star(1),
    Global((0,)),
    Longformer(1, (-1,)),
    Window(1) & ~Causal(),
    ~Window(1),
)


@st.composite
def masks(draw: st.DrawFn, size: int) -> torch.Tensor:
    """Any (size, size) mask."""
    bits = draw(st.integers(0, 2 ** (size * size) - 1))
    return torch.tensor([(bits >> k) & 1 for k in range(size * size)]).bool().view(size, size)


@st.composite
def patterns(draw: st.DrawFn, size: int) -> Pattern | torch.Tensor:
    """A mask, a named pattern, or several heads of these."""
    one = st.one_of(masks(size), st.sampled_from(NAMED))
    heads = draw(st.lists(one, min_size=1, max_size=3))
    return heads[0] if len(heads) == 1 else PerHead(*heads)


@st.composite
def designs(draw: st.DrawFn, most: int = 7, cycle: int = 3) -> Design:
    """Absolute positions, up to `most` vertices, with and without BOS."""
    size = draw(st.integers(1, most))
    bos = size > 1 and draw(st.booleans())
    given = tuple(draw(st.lists(patterns(size), min_size=1, max_size=cycle)))
    return Design(size - bos, given, bos=bos)


def offset_designs() -> st.SearchStrategy[Design]:
    """Designs whose patterns depend on i - j only."""
    named = [p for p in NAMED if p.offsets(3) is not None]
    sizes = st.integers(2, 9)
    cycles = st.lists(st.sampled_from(named), min_size=1, max_size=3).map(tuple)
    return st.builds(lambda n, cycle, bos: Design(n, cycle, bos=bos), sizes, cycles, st.booleans())


def matrices(design: Design) -> list[np.ndarray]:
    """(size, size) bool for each pattern of the cycle, in any head."""
    return [pattern.mask(design.tokens + design.bos).numpy() for pattern in design.cycle]
