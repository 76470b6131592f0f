"""What method "yun" needs of a design, and of the numbers that float64 can hold."""

from __future__ import annotations

from anyseq.base import EXACT_BITS
from anyseq.construct.contextual.route import Route
from anyseq.construct.gadgets import deciding_gap
from anyseq.construct.methods.yun.gain import check_base, heads_of
from anyseq.construct.request import needs
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.error import SUP
from anyseq.errors import CannotApproximate
from anyseq.patterns import Full
from anyseq.positions import URPE, Absolute, NoPosition


def route_through(ask: Ask, log_steps: int) -> Route | None:
    """A suitable route through the patterns of a design, None where attention is dense.

    log_steps: the grid is at least so fine.
    """
    design, position = ask.design, ask.design.position
    needs.plain_blocks(design)
    deciding_gap(design.probability)
    if ask.norm == SUP:
        raise CannotApproximate("its guarantee is in L^p only; use norm='lp'")
    if isinstance(position, URPE):
        check_base(position)
    elif not isinstance(position, (Absolute, NoPosition)):
        raise CannotApproximate(
            "it needs learned absolute positions, URPE or none; no such construction is known for "
            f"{type(position).__name__}"
        )
    if design.cycle == (Full(),):
        return None
    if isinstance(position, NoPosition):
        raise CannotApproximate("without positions it is built for dense attention, Full()")
    check_least_bits(ask, log_steps)
    return Route.through(design, heads_of(design))


def check_least_bits(ask: Ask, log_steps: int) -> None:
    """If even this lower bound is too large, no route need be searched for."""
    bits = least_bits(ask, log_steps)
    if bits > EXACT_BITS:
        raise too_long(ask, log_steps, f"at least {bits}")


def least_bits(ask: Ask, log_steps: int) -> int:
    """Along a route of 2 or more tokens max l'_n >= c^(n-1) base >= δ^-nw, and the shift that comes
    last multiplies more than a third of it by more than itself."""
    if ask.design.tokens == 1:
        return 0
    return 2 * ask.design.tokens * max(ask.features, ask.out_features) * log_steps - 2


def too_long(ask: Ask, log_steps: int, bits: str) -> CannotApproximate:
    """The error for ids that take more bits than float64 has."""
    return CannotApproximate(
        f"it needs δ <= 2^-{log_steps}, where ids, for |f| <= {ask.bound:.4g}, take {bits} bits "
        f"and float64 holds {EXACT_BITS}"
    )
