"""What a construction needs of a design; each error is one line."""

from __future__ import annotations

import math

from anyseq.construct.request.ask import Ask
from anyseq.construct.request.error import SUP
from anyseq.design import Design
from anyseq.errors import CannotApproximate, InvalidArgument
from anyseq.patterns import Full
from anyseq.positions import Absolute, GridBias, NoPosition, Rotary, base_of
from anyseq.probability import Softmax

_MOST_ENTRIES = 2**15  # no method serves as many; its sizes would be numbers of as many digits


def few_entries(design: Design, features: int, out_features: int) -> None:
    """Raise an error for inputs and outputs too large even to plan."""
    for what, count in (("features", features), ("out_features", out_features)):
        if design.tokens * count > _MOST_ENTRIES:
            raise CannotApproximate(
                f"tokens={design.tokens:,} times {what}={count:,}: no method supports more than "
                f"{_MOST_ENTRIES:,} entries"
            )


def layers_alike(design: Design) -> None:
    """Attention in every layer, alike but for the patterns, and the papers' plain blocks."""
    if design.layers is not None:
        other = next((layer.mixer for layer in design.layers if not layer.attends), None)
        which = "layers of different kinds" if other is None else f"a layer of {other}"
        raise CannotApproximate(
            f"{which}: constructions are for layers that differ only in their patterns"
        )
    for name, usual in (("block_norm", None), ("head", False), ("readout", "all")):
        if getattr(design, name) != usual:
            raise CannotApproximate(
                f"{name}={getattr(design, name)!r}: constructions are for designs with "
                f"{name}={usual!r}"
            )
    base = base_of(design.position)
    if isinstance(base, Rotary) and base != Rotary(base.base):
        raise CannotApproximate(
            f"position={base!r}: constructions are for rotary positions that turn all features, "
            f"without scaling, Rotary({base.base})"
        )
    if isinstance(base, GridBias):
        raise CannotApproximate(
            f"position={base!r}: constructions do not support biases over the offsets of an array"
        )
    if design.domain != "cube":
        raise CannotApproximate("domain='ids': f takes points of a cube; use domain='cube'")


def patterns_that_fit(design: Design) -> None:
    """Check that every pattern fits the number of positions of the design."""
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
    """Blocks with feed-forward halves, and nothing but the tokens to attend to."""
    feed_forward(design)
    for name in ("bos", "sinks"):
        if getattr(design, name):
            raise CannotApproximate(f"it is built for designs with {name}=False")


def gathering(ask: Ask) -> str:
    """What every token can gather, in sup norm: "all" tokens, or, for "causal" functions, those up
    to itself."""
    reasons = []
    for target in ("all", "causal"):
        try:
            verdict = ask.verdicts.of(ask.design, SUP, target)
        except InvalidArgument as unknown:  # a probability map of which no theorem speaks
            raise CannotApproximate(str(unknown)) from None
        if verdict.certificate is not None and verdict.certificate.kind == "gather":
            return target
        reasons.append(verdict.reason)
    raise CannotApproximate(
        f"it needs a design that gathers the sequence, and in sup norm {reasons[0]}"
    )


def feed_forward(design: Design) -> None:
    """Feed-forward halves, and outputs of any size."""
    if not design.feedforward:
        raise CannotApproximate("it needs feed-forward layers")
    if design.final_norm is not None:
        raise CannotApproximate("it is built for designs with final_norm=None")


def lipschitz(ask: Ask) -> float:
    """A Lipschitz constant of f in the max norm."""
    if math.isinf(ask.lipschitz):
        raise CannotApproximate(
            "it needs a Lipschitz constant; a modulus of continuity or a curvature alone is not "
            "enough"
        )
    return ask.lipschitz


def absolute_positions(design: Design) -> None:
    """Positions at the input."""
    if not isinstance(design.position, Absolute):
        raise CannotApproximate("it needs absolute positions, to distinguish tokens")


def plain_attention(design: Design) -> bool:
    """Full attention by softmax, nothing inside it but scores, and nothing but the tokens to attend
    to."""
    full = design.cycle == (Full(),) and isinstance(design.probability, Softmax)
    outside = isinstance(design.position, Absolute | NoPosition)
    return full and outside and not design.bos and not design.sinks
