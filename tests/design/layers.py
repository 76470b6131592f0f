"""Random layers and designs of layers."""

import hypothesis.strategies as st

import anyseq as aq

INSIDE = [
    aq.NoPosition(), aq.Rotary(), aq.ALiBi(), aq.RelativeBias(), aq.T5Bias(), aq.Shaw(),
    aq.URPE(), aq.URPE(aq.Rotary()),
]  # fmt: skip
PATTERNS = [
    aq.Full(), aq.Causal(), aq.Window(2), aq.Causal() & aq.Window(3), aq.Global((0, -1)),
    aq.Window(1) | aq.Global((0,)), aq.PerHead(aq.Window(1), aq.Causal()),
]  # fmt: skip
OWN_SIGHT = [aq.Convolution(3), aq.Convolution(4, causal=True), aq.Recurrence()]
BY_PATTERN = [
    aq.LinearAttention(), aq.LinearAttention(normalised=False), aq.Average(), aq.Bilinear()
]  # fmt: skip
MAPS = ["softmax", "hardmax", "sparsemax", "entmax15", aq.TopK(3)]

ATTENTION = st.builds(
    aq.Layer,
    pattern=st.sampled_from(PATTERNS),
    position=st.sampled_from(INSIDE),
    prob_map=st.sampled_from(MAPS),
    sinks=st.booleans(),
    feedforward=st.booleans(),
)
MIXED = st.builds(
    aq.Layer,
    pattern=st.sampled_from(PATTERNS),
    mixer=st.sampled_from(BY_PATTERN),
    feedforward=st.booleans(),
)
OTHER = st.builds(aq.Layer, mixer=st.sampled_from(OWN_SIGHT), feedforward=st.booleans())
LAYERS = st.one_of(ATTENTION, MIXED, OTHER)
DESIGNS = st.builds(
    aq.Design,
    tokens=st.integers(1, 6),
    layers=st.lists(LAYERS, min_size=1, max_size=4),
    position=st.sampled_from([aq.NoPosition(), aq.Absolute(), aq.Sinusoidal()]),
    bos=st.booleans(),
    final_norm=st.sampled_from([None, "layernorm", "learned-layernorm", "learned-rmsnorm"]),
    depth=st.sampled_from([None, 1, 3]),
    block_norm=st.sampled_from([None, "pre", "post", "sandwich"]),
    head=st.booleans(),
    domain=st.sampled_from(["cube", "ids"]),
    readout=st.sampled_from(["all", "last", 0]),
)
