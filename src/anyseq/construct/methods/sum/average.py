"""A head that averages over all tokens, in any design that has one.

All scores are 0: queries are 0, so Rotary and Shaw have no effect, and biases are 0 too. Every
probability map gives equal weights to equal scores. Sinks get weight 0, exactly. So the head
returns the mean of the values over all positions, BOS among them.
"""

from __future__ import annotations

import torch

from anyseq.base import ZERO_WEIGHT_GAP
from anyseq.construct.gathering import Heads
from anyseq.construct.request.error import SUP
from anyseq.construct.request.kind import kind_of_function
from anyseq.construct.request.verdicts import Verdicts
from anyseq.design import Design
from anyseq.errors import CannotApproximate
from anyseq.nn import AttentionLayers
from anyseq.patterns import Pattern
from anyseq.positions import ALiBi, NoPosition, base_of


def averaging_layer(design: Design, norm: str, verdicts: Verdicts) -> int:
    """The pattern of the cycle by which some head can average over all tokens, in a design for
    permutation-equivariant f."""
    if design.tokens == 1 and isinstance(design.position, NoPosition):  # every f commutes
        for layer, pattern in enumerate(design.cycle):
            if any(_sees_all(part, design.size) for part in pattern.heads()):
                return layer
        raise CannotApproximate("it needs a head that averages over all tokens")
    if kind_of_function(design, norm, verdicts) != "equivariant":
        raise CannotApproximate(
            "only for permutation-equivariant f: for designs such as dense attention with "
            "position=NoPosition()"
        )
    proof = verdicts.of(design, SUP, "equivariant").certificate
    sloped = isinstance(base_of(design.position), ALiBi)  # it averages in the limit only
    if proof is None or proof.full_layer is None or sloped:
        raise CannotApproximate("it needs a head that averages over all tokens")
    return proof.full_layer


def averaging_heads(design: Design, layer: int, size: int) -> Heads:
    """One for each pattern of a layer; `size` is even, as Rotary asks."""
    count = len(design.cycle[layer].heads())
    return Heads(design, period=count, tellers=0, count=count, size=size)


def average(
    heads: Heads, layer: int, width: int, *, first: int, factors: torch.Tensor
) -> AttentionLayers:
    """Feature first + k grows by factors[k] times its mean over all positions."""
    attention = heads.blank(width)
    parts = heads.design.cycle[layer].heads()
    everyone = [_sees_all(part, heads.vertices) for part in parts]
    number = torch.arange(len(factors))
    row, feature = heads.rows(everyone.index(True)).start + number, first + number
    attention.v_weight[0, row, feature] = 1.0
    attention.o_weight[0, feature, row] = factors
    if attention.sink is not None:
        attention.sink.fill_(-2 * ZERO_WEIGHT_GAP)
    return attention


def _sees_all(pattern: Pattern, size: int) -> bool:
    return bool(pattern.mask(size).all())
