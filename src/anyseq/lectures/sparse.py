"""Lecture 3: which sparse pattern needs how many layers until every token reaches every token."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from matplotlib.figure import Figure

from anyseq.base import table
from anyseq.design import Design
from anyseq.graph import reach
from anyseq.lectures.slide import Slide
from anyseq.nn import Transformer
from anyseq.patterns import (
    Blocks,
    Dilated,
    Fixed,
    Full,
    Global,
    LogSparse,
    Pattern,
    Star,
    Strided,
    Window,
)
from anyseq.pictures import show
from anyseq.verdicts import compare

TOKENS = 64
PATTERNS: dict[str, Pattern | tuple[Pattern, ...]] = {
    "full": Full(),
    "window(4)": Window(4),
    "window(4) | global": Window(4) | Global((0,)),
    "star(1)": Star(1),
    "strided(8), split": Strided(8).split(),
    "fixed(8), split": Fixed(8).split(),
    "logsparse": LogSparse(),
    "dilated(3, 4)": Dilated(3, 4),
    "blocks(8)": Blocks(8),
}
"""What each token attends to; two patterns repeat to alternate layers."""


def designs() -> dict[str, Design]:
    """With absolute positions, which leaves reach as the only question."""
    return {name: Design(TOKENS, pattern) for name, pattern in PATTERNS.items()}


def reach_table() -> str:
    """Connections of a layer, the most keys of any token, the layers needed, and how many layers
    any pattern with so many keys needs: after s layers a token depends on at most k^s tokens."""
    rows = []
    for name, design in designs().items():
        found = reach(design)
        keys = max(int(one.mask(TOKENS).sum(1).max()) for one in design.cycle)
        least = math.ceil(math.log(TOKENS) / math.log(keys) - 1e-9)
        connections = sum(found.connections) / len(found.connections)
        needed = "never" if found.layers is None else str(found.layers)
        rows.append((name, f"{connections:,.0f}", str(keys), str(least), needed))
    head = ("pattern", "connections", "most keys", "at least", "layers needed")
    return table(head, rows)


def reach_figure() -> Figure:
    """How many layers each pair of tokens needs, pattern by pattern, on one scale."""
    return show(compare(*designs().values()))


def effect(depth: int) -> float:
    """The gradient of output 0 with respect to token 63 in a network of window(4) with random
    weights: exactly 0 unless token 63 reaches token 0 within `depth` layers."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Transformer(Design(TOKENS, Window(4)), 16, depth, heads=2, dtype=torch.float64)
    rng = torch.Generator().manual_seed(0)
    x = torch.rand(1, TOKENS, 16, generator=rng, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(model(x)[0, 0].sum(), x)
    return float(gradient[0, -1].abs().max())


def slides() -> Iterator[Slide]:
    """The lecture."""
    yield Slide(
        "Fewer connections, more layers",
        (
            f"Dense attention on {TOKENS} tokens computes {TOKENS}² = {TOKENS**2:,} weights a "
            "layer. A sparse pattern computes fewer, but a token then attends to a few others "
            "only. What it needs from further away arrives in several hops, one a layer. Token j "
            "reaches token i when such a route exists.",
        ),
    )
    yield Slide(
        "How many layers until every token reaches every token?",
        (
            reach_table(),
            "Connections are those of one layer. With k keys a token at most, an output depends on "
            'no more than k^s tokens after s layers: hence the column "at least". What '
            "window(4) reaches grows by 4 tokens a layer on each side, so it needs "
            "ceil(63/4) = 16. A global token is a hub: two layers are enough. Tokens of "
            "different blocks never meet, nor do neighbours in a dilated window, which attends to "
            "every fourth token; no depth repairs that.",
        ),
        (("reach", reach_figure()),),
    )
    yield Slide(
        "Try it on a network",
        (
            "Random weights, window(4). The gradient of output 0 with respect to token 63:",
            table(("depth", "gradient"), [(str(one), f"{effect(one):.1g}") for one in (15, 16)]),
            "At depth 15 it is exactly 0: no training can make output 0 depend on token 63. At "
            "depth 16 it is not 0, but small: reach says what is possible, not that it is easy.",
        ),
    )
