"""Checks that a claim is about this network and this table, and that the network belongs to the
design that it is certified for: its layers have nothing that the design has not."""

from __future__ import annotations

import math

from anyseq.nn import Stack
from anyseq.positions import URPE, Absolute
from anyseq.verify.facts import Facts
from anyseq.verify.verdict import Disagreement, Tensors

_LARGEST = 2.0**400  # products of two weights, and sums of these, do not overflow
_CELLS = 2**27  # sequences that are gone through where the table has fewer rows
_CORNERS = 2**20  # of a cube, likewise


def sizes_fit(facts: Facts, network: Stack, table: Tensors) -> str:
    """The work of later checks grows with these numbers, and these are sizes of tensors."""
    shape, values = network.shape, table["values"]
    told = (facts.tokens, facts.features, facts.out_features, facts.steps)
    if not all(type(number) is int and 1 <= number <= 2**52 for number in told):
        raise Disagreement("tokens, features or steps are out of range")
    wanted = (shape.tokens, shape.in_features, shape.out_features)
    if told[:3] != wanted or network.design.tokens != shape.tokens:
        raise Disagreement(f"(tokens, features, out_features) {told[:3]} claimed, not {wanted}")
    if tuple(values.shape[1:]) != (facts.tokens, facts.out_features):
        raise Disagreement(f"a table of shape {tuple(values.shape)} for {facts.tokens:,} tokens")
    if not _rows_fit(facts, table):
        raise Disagreement(f"a table of {len(values):,} rows for {facts.steps:,} steps an axis")
    if facts.memory and 2**facts.axes > _CORNERS:
        raise Disagreement(f"a cube of {facts.axes} axes has too many corners to be checked")
    return f"those of the network, and of its table of {len(values):,} rows"


def _rows_fit(facts: Facts, table: Tensors) -> bool:
    """Whether a table has as many rows as its parts. No power is taken that could be large: each is
    at least its base, and at least 2 to its exponent."""
    rows, axes = len(table["values"]), facts.axes
    per_axis = facts.steps + (facts.parts in ("simplices", "boxes"))
    if facts.parts == "ridges":  # one ridge alone has more than this many
        return facts.steps < len(table["knots"])
    if facts.parts == "boxes":  # all corners of a box are nodes, and all nodes have numbers
        return 2 ** min(axes, 62) <= rows and axes * math.log2(per_axis) < 62
    if not facts.by_order:
        cells = 1 if facts.steps == 1 else facts.steps ** min(facts.features, 62)
        if cells > max(rows, facts.tokens) or (cells > 1 and facts.tokens > max(rows, cells)):
            return False
        if facts.rows == "sets":
            every = axes * math.log2(facts.steps) <= math.log2(_CELLS)
            return every and math.comb(cells, facts.tokens) == rows
        return math.comb(cells + facts.tokens - 1, facts.tokens) == rows
    return axes * math.log2(per_axis) < 62 and per_axis**axes == rows


def layers_of(facts: Facts, network: Stack) -> str:
    """How many layers there are.

    Idle layers compute nothing, but they are counted. What learns inside attention is made by the
    design, and a stack with other tensors for that does not run.
    """
    design, shape = network.design, network.shape
    for name, weight in network.named_parameters():
        if not bool((weight.abs() <= _LARGEST).all()):
            raise Disagreement(f"{name}: a weight is not a number, or beyond {_LARGEST:.3g}")
    gains = isinstance(design.position, URPE)
    base = design.position.base if isinstance(design.position, URPE) else design.position
    memory = "memory_key" in network.state_dict()
    has = {
        "BOS": (shape.bos, design.bos),
        "sinks": (shape.sinks, bool(design.sinks)),
        "vectors of positions": (shape.positions, shape.positions and isinstance(base, Absolute)),
        "gains": (shape.gains > 0, shape.gains > 0 and gains),
        "a memory": (memory, facts.parts == "centres"),
        "feed-forward halves": (shape.feedforward_layers > 0, bool(design.feedforward)),
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
