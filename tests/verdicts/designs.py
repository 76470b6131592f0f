"""Small random designs for the tests of verdicts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st

import anyseq as aq
from anyseq.positions import Place

PATTERNS = [
    aq.Full(), aq.Causal(), aq.Window(1), aq.Window(2), aq.Blocks(2), aq.Strided(2), aq.Fixed(3),
    aq.Star(1), aq.Global((0,)), aq.LogSparse(), aq.Dilated(1, 2), aq.Causal() & aq.Window(1),
    ~aq.Window(1), aq.PerHead(aq.Window(1), aq.Causal()), aq.Random(1, 0),
]  # fmt: skip
POSITIONS = [
    aq.NoPosition(), aq.Absolute(), aq.Sinusoidal(), aq.Rotary(), aq.ALiBi(), aq.RelativeBias(),
    aq.T5Bias(4, 3), aq.Shaw(2), aq.URPE(), aq.URPE(aq.NoPosition()), aq.URPE(aq.ALiBi()),
]  # fmt: skip


def positions_for(tokens: int, bos: bool) -> list[aq.Position]:
    """All of them; without BOS also biases over arrays of so many tokens."""
    shapes = [] if bos else [(a, tokens // a) for a in range(1, tokens + 1) if tokens % a == 0]
    grids = [aq.GridBias(shape) for shape in shapes]
    return [*POSITIONS, *grids, *map(aq.URPE, grids)]


MIXERS = [
    aq.Convolution(3), aq.Convolution(2, causal=True), aq.Recurrence(), aq.LinearAttention(),
    aq.LinearAttention(normalised=False), aq.Average(), aq.Bilinear(),
]  # fmt: skip


@st.composite
def designs(
    draw: st.DrawFn, /, *, mixers: bool = False, models: bool = False, most: int = 6, **fixed: Any
) -> aq.Design:
    """Small designs of every kind, of up to `most` tokens. mixers: with one layer or more that is
    no attention. models: with norms, heads, ids and readouts, as models have them."""
    softmax = {"prob_map": "softmax", "sinks": draw(st.booleans())}
    other = {"prob_map": draw(st.sampled_from(["hardmax", "sparsemax", "entmax15"]))}
    tokens, bos = draw(st.integers(1, most)), draw(st.booleans())
    options: dict[str, Any] = {
        "tokens": tokens,
        "patterns": tuple(draw(st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2))),
        "position": draw(st.sampled_from(positions_for(tokens, bos))),
        "bos": bos,
        "depth": draw(st.sampled_from([None, None, 1, 2, 3])),
        "feedforward": draw(st.sampled_from([True, True, True, False])),
        "final_norm": draw(st.sampled_from([None, None, None, None, "layernorm", "rmsnorm"])),
        **draw(st.sampled_from([softmax, softmax, other])),
    }
    options |= _of_models(draw, tokens) if models else {}
    options |= fixed
    design = aq.Design(**options)
    if mixers:
        return _mixed(draw, design)
    if draw(st.booleans()) or len(design.layer_cycle) == 1:
        return design
    # layers of different kinds: the others take another position inside attention
    inside = [one for one in positions_for(tokens, bos) if Place.INPUT not in one.acts_in]
    first, *others = design.layer_cycle
    others = [replace(layer, position=draw(st.sampled_from(inside))) for layer in others]
    if not first.sinks and draw(st.booleans()):
        others[-1] = replace(others[-1], prob_map="softmax", sinks=True)
    return design.with_layers((first, *others))


def _of_models(draw: st.DrawFn, tokens: int) -> dict[str, Any]:
    """What a design says of a model beside its layers."""
    return {
        "final_norm": draw(
            st.sampled_from([None, None, "rmsnorm", "learned-rmsnorm", "learned-layernorm"])
        ),
        "block_norm": draw(st.sampled_from([None, "pre", "post", "sandwich"])),
        "head": draw(st.booleans()),
        "domain": draw(st.sampled_from(["cube", "cube", "ids"])),
        "readout": draw(st.sampled_from(["all", "last", *range(tokens)])),
    }


def _mixed(draw: st.DrawFn, design: aq.Design) -> aq.Design:
    """The design with another mixer in one or all of its layers."""
    layers = list(design.layer_cycle)
    for i in range(draw(st.integers(1, len(layers)))):
        mixer = draw(st.sampled_from(MIXERS))
        pattern = layers[i].sees if mixer.takes_pattern else aq.Full()
        if len(pattern.heads()) > 1 and not isinstance(mixer, aq.LinearAttention):
            pattern = pattern.heads()[0]  # a mixer without heads has one mask
        layers[i] = aq.Layer(pattern, mixer=mixer, feedforward=layers[i].feedforward)
    return design.with_layers(layers)
