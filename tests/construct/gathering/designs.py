"""Small designs that gather, of every kind."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

import anyseq as aq
from anyseq.patterns import Ring

POSITIONS = (
    aq.Absolute(), aq.Sinusoidal(), aq.NoPosition(), aq.Rotary(), aq.ALiBi(), aq.RelativeBias(),
    aq.T5Bias(buckets=4, max_distance=3), aq.Shaw(1), aq.URPE(), aq.URPE(aq.ALiBi()),
    aq.URPE(aq.NoPosition(), shared=False), aq.URPE(aq.Sinusoidal()),
    aq.URPE(aq.Rotary(), shared=False),
)  # fmt: skip

_NAMED = (
    aq.Full(), aq.Causal(), aq.Window(1), aq.Star(1), Ring(1), aq.Global((0,)), aq.Strided(2),
    aq.Fixed(2), aq.Random(2, 0),
)  # fmt: skip

_MAPS: tuple[str | aq.ProbMap, ...] = ("softmax", "sparsemax", "entmax15", "hardmax", aq.TopK(2))


@st.composite
def _patterns(draw: st.DrawFn, size: int) -> object:
    bits = st.lists(st.booleans(), min_size=size**2, max_size=size**2)
    mask = bits.map(lambda b: torch.tensor(b).view(size, size))
    heads = draw(st.lists(st.one_of(st.sampled_from(_NAMED), mask), min_size=1, max_size=2))
    return heads[0] if len(heads) == 1 else aq.PerHead(*heads)


@st.composite
def designs(draw: st.DrawFn, most: int = 4) -> aq.Design:
    """Any design of up to `most` tokens."""
    tokens, bos = draw(st.integers(1, most)), draw(st.booleans())
    prob_map = draw(st.sampled_from(_MAPS))
    return aq.Design(
        tokens,
        tuple(draw(st.lists(_patterns(tokens + bos), min_size=1, max_size=3))),
        draw(st.sampled_from(POSITIONS)),
        prob_map,
        bos=bos,
        sinks=prob_map == "softmax" and draw(st.booleans()),
    )


def gathers(design: aq.Design) -> str | None:
    """What every token can gather, by `check`: "all", or for "causal" functions; or None."""
    for target in ("all", "causal"):
        certificate = aq.check(design, target=target).certificate
        if certificate is not None and certificate.kind == "gather":
            return target
    return None
