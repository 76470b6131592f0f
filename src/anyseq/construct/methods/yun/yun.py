"""Method "yun": the constructions of Yun et al. as written, with the positions of Luo et al.

Theorems 2 and 3 of Yun et al. (ICLR 2020), dense attention; Theorem 1 of Yun et al. (NeurIPS 2020),
sparse attention; and both with URPE (Luo et al., NeurIPS 2022) in place of absolute positions.
Blocks of at most 2 heads of size 1 and 4 hidden ReLUs, of width d, any probability map that can put
all its weight on one token, no layer norm:

    positions       URPE only: the gain gives every token its E (`gain`)
    clip, banish    Theorem 2 only: entries outside [0, 1) far below 0
    quantise        entries to a grid of step δ (positions: X + E)
    shifts          token ids become ids of (token, whole sequence): the contextual mapping
    erase           Theorem 2 only: sequences with equal or banished tokens become 0
    rescale         ids become as small as their gaps allow, so that little is lost to rounding
    value map       one layer per id: the id becomes f at the centre of the cell
    clip values that missed every window are clipped into the range of f

Theorem 3 (`positions`) covers every f, Theorem 2 permutation-equivariant f. Theorem 2 holds values
only for sequences whose tokens lie in different cells, up to order: n·C(δ^-d, n) layers instead of
n·δ^-nd. A sequence with two tokens in one cell gives 0, as in the paper: that is part of the L^p
error, O(δ^(d/p)). So does one with an entry outside [0, 1), where the paper's f is 0: further out
than the width of a ramp, and up to 2^53, where float64 still distinguishes it from others.

Dense attention is a pattern, too. Where the ids of Theorem 3 take more than 53 bits, or round too
much, those of the sparse theorem, which take fewer, may do.

Where out_features is not features the width is the larger of the two; missing features are 0. A
constant channel for URPE, and the maximum that is carried where all-max-shift would need too many
bits, share one extra feature. It is 0 from the value map on.
"""

from __future__ import annotations

from dataclasses import replace

from anyseq.base import EXACT_BITS, Progress
from anyseq.construct.contextual.route import Route
from anyseq.construct.contextual.sparse import SparseContextual
from anyseq.construct.methods.recipe import Construction
from anyseq.construct.methods.yun.gain import heads_of
from anyseq.construct.methods.yun.needs import (
    check_least_bits,
    least_bits,
    route_through,
    too_long,
)
from anyseq.construct.methods.yun.network import build
from anyseq.construct.methods.yun.sizes import NAME, YunSizes
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.error import combine
from anyseq.construct.request.target import Target

__all__ = ["NAME", "YunRecipe", "recipe"]


def recipe(ask: Ask) -> YunRecipe:
    """The coarsest grid that meets the tolerance; the literal network, if possible."""
    log_steps = max(1, ask.least_log_steps)
    route = route_through(ask, log_steps)
    while True:
        if route:
            check_least_bits(ask, log_steps)
        candidates = _networks(ask, log_steps, route)
        fitting = [found for found in candidates if found.id_bits <= EXACT_BITS]
        if not fitting:
            raise too_long(ask, log_steps, " or ".join(str(found.id_bits) for found in candidates))
        for found in fitting:
            if found.cells and combine(found.terms, ask.norm, ask.p) <= ask.tol:
                return found
        log_steps += 1


def _networks(ask: Ask, log_steps: int, route: Route | None) -> list[YunRecipe]:
    """The literal network, then the one that needs fewer bits, if there is one."""
    literal = YunRecipe(ask, log_steps, route=route)
    if route is not None:
        context = literal.context
        assert isinstance(context, SparseContextual)
        return [literal, replace(literal, carried=True)] if context.spread[1] > 1 else [literal]
    if not literal.positions or ask.design.tokens == 1 or least_bits(ask, log_steps) > EXACT_BITS:
        return [literal]
    along = Route.through(ask.design, heads_of(ask.design))
    return [literal, replace(literal, route=along)]


class YunRecipe(YunSizes):
    """The network for one grid step, to be built."""

    def build(self, target: Target, progress: Progress) -> Construction:
        return build(self, target, progress)
