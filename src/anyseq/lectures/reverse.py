"""Lecture 1: an explicit Transformer reverses three numbers, stage by stage."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from anyseq.base import generator, table, uniform
from anyseq.construct import Approximation, approximate
from anyseq.design import Design
from anyseq.lectures.slide import Slide
from anyseq.patterns import Full, Pattern, Window
from anyseq.pictures import show
from anyseq.verdicts import check

TOKENS = 3
INPUT = torch.tensor([[0.1], [0.7], [0.3]], dtype=torch.float64)
_TOL = 0.1
_RANDOM_INPUTS = 100_000


def flip(x: torch.Tensor) -> torch.Tensor:
    """The function: (batch, tokens, features) with the tokens in reverse order."""
    return x.flip(1)


def network(pattern: Pattern | None = None) -> Approximation:
    """`flip` as a Transformer. No output changes by more than the largest change of an input
    (Lipschitz constant 1), and `flip` is linear (curvature 0)."""
    design = Design(TOKENS, pattern or Full())
    return approximate(flip, design, features=1, tol=_TOL, lipschitz=1.0, curvature=0.0)


def largest_error(result: Approximation) -> float:
    """On random inputs, through every block."""
    x = uniform(_RANDOM_INPUTS, TOKENS, 1, rng=generator(0))
    with torch.no_grad():
        return float((result.model(x) - flip(x)).abs().max())


def comparison() -> str:
    """Dense attention beside a window in which a token attends to its neighbours only."""
    rows = []
    for name, pattern in {"full": Full(), "window(1)": Window(1)}.items():
        result, reach = network(pattern), check(Design(TOKENS, pattern)).reach
        assert reach is not None
        size, error = result.size, result.error
        rows.append((name, f"{reach.layers}", f"{size.layers}", f"{error.upper:.1e}"))
    return table(("each token attends to", "hops", "layers", "proved error"), rows)


def slides() -> Iterator[Slide]:
    """The lecture."""
    result = network()
    yield Slide(
        "Reverse three numbers",
        (
            "f(x_0, x_1, x_2) = (x_2, x_1, x_0). Token 0 has to give what token 2 holds: attention "
            "must carry it there. Here is a Transformer that does it. Nothing was trained: every "
            "weight follows from f.",
            str(result),
        ),
    )
    explanation = result.explain(INPUT)
    yield Slide(
        "Stage by stage",
        (
            "First, attention copies the whole sequence into every token. Then ReLU layers compute "
            "f from it; they compute all three outputs in every token. Last, every token keeps the "
            "output that is its own.",
            str(explanation),
        ),
        (("reverse-stages", show(explanation)),),
    )
    yield Slide(
        "How large is the error?",
        (
            f"Proven upper bound, for every input in [0, 1]: {result.error.upper:.1e}. Measured on "
            f"{_RANDOM_INPUTS:,} random inputs, through every block: {largest_error(result):.1e}. "
            "Interpolation makes no error, because f is linear. What is left is the rounding of "
            "float64. A measurement shows that the error is at least so large; only the proof says "
            "that it is nowhere larger.",
        ),
    )
    yield Slide(
        "If a token attends to its neighbours only",
        (
            "Tokens 0 and 2 do not attend to each other then. Token 1 attends to both, and in the "
            "next layer it passes on what it has gathered: token 2 reaches token 0 in two hops.",
            comparison(),
        ),
        (("reverse-stages-window", show(network(Window(1)).explain(INPUT))),),
    )
