"""That a network is one of the design it is certified for: its layers have nothing that the design
has not."""

from __future__ import annotations

from anyseq.construct.memory import MemoryShape
from anyseq.construct.verify_terms import Disagreement
from anyseq.nn import Stack
from anyseq.positions import URPE, Absolute


def layers_of(network: Stack, *, memory: bool) -> str:
    """How many layers there are. memory: whether the method takes one beside the tokens.

    Idle layers compute nothing, but they are counted. What learns inside attention is made by the
    design, and a stack with other tensors for that does not run.
    """
    design, shape = network.design, network.shape
    gains = isinstance(design.position, URPE)
    base = design.position.base if isinstance(design.position, URPE) else design.position
    has = {
        "BOS": (shape.bos, design.bos),
        "sinks": (shape.sinks, design.sinks),
        "vectors of positions": (shape.positions, shape.positions and isinstance(base, Absolute)),
        "gains": (shape.gains > 0, shape.gains > 0 and gains),
        "a memory": (isinstance(shape, MemoryShape), memory),
        "feed-forward halves": (shape.feedforward_layers > 0, design.feedforward),
        "a norm at the end": (False, design.final_norm is not None),
    }
    for what, (found, wanted) in has.items():
        if found != wanted:
            words = {True: "has", False: "has not"}
            raise Disagreement(f"{what}: the network {words[found]}, the design {words[wanted]}")
    if design.depth not in (None, shape.layers):
        raise Disagreement(f"{shape.layers:,} layers, for a design with depth={design.depth:,}")
    more = ", as the design says" if design.depth else "; the design allows any"
    return f"{shape.layers:,}{more}"
