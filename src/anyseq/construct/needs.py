"""What a construction asks of a design; each refusal is one line."""

from __future__ import annotations

from anyseq.design import Design
from anyseq.errors import CannotApproximate, InvalidArgument
from anyseq.patterns import Full
from anyseq.probability import Softmax


def patterns_that_fit(design: Design) -> None:
    """No pattern that is for another number of positions than the design has."""
    for pattern in design.cycle:
        if pattern.natural_length not in (None, design.size):
            kind, length = type(pattern).__name__, pattern.natural_length
            raise InvalidArgument(
                f"patterns: {kind} is for {length} positions; the design has {design.size}"
                + (", with BOS" if design.bos else "")
            )


def dense_softmax(design: Design) -> None:
    """Full attention by softmax."""
    if design.cycle != (Full(),):
        raise CannotApproximate("it is built for dense attention, patterns=Full()")
    if not isinstance(design.probability, Softmax):
        raise CannotApproximate(f"it is built for softmax, not for {design.probability.name}")


def plain_blocks(design: Design) -> None:
    """Blocks with feed-forward halves, and nothing but the tokens to look at."""
    feed_forward(design)
    for name in ("bos", "sinks"):
        if getattr(design, name):
            raise CannotApproximate(f"it is built for designs with {name}=False")


def feed_forward(design: Design) -> None:
    """Feed-forward halves, and outputs of any size."""
    if not design.feedforward:
        raise CannotApproximate("it needs feed-forward layers")
    if design.final_norm is not None:
        raise CannotApproximate("it is built for designs with final_norm=None")
