"""What is claimed of the network that a recipe builds."""

from __future__ import annotations

import math

from anyseq.construct.claims.claim import Claim
from anyseq.construct.methods.gather.wide import WideRecipe
from anyseq.construct.methods.recipe import Recipe
from anyseq.construct.request.error import combine
from anyseq.construct.request.kind import kind_asked
from anyseq.construct.request.needs import plain_attention
from anyseq.construct.request.smooth import SHELLS, Smoothness
from anyseq.positions import NoPosition


def claim_of(recipe: Recipe) -> Claim:
    """The claim about the network that a recipe builds."""
    ask, step = recipe.ask, 2.0**-recipe.log_steps
    known = ask.smoothness
    return Claim(
        method=recipe.method,
        tokens=ask.design.tokens,
        features=ask.features,
        out_features=ask.out_features,
        steps=2**recipe.log_steps,
        positions=not isinstance(ask.design.position, NoPosition),
        dense=plain_attention(ask.design),
        kind=kind_asked(ask),
        norm=ask.norm,
        p=ask.p,
        bound=ask.bound,
        lipschitz=known.lipschitz if known.lipschitz < math.inf else None,
        per_feature=known.per_feature,
        modulus=_recorded(known, step, recipe.distances if isinstance(recipe, WideRecipe) else ()),
        curvature=known.curvature if known.curvature < math.inf else None,
        terms=tuple((term.name, term.on, term.value) for term in recipe.terms),
        upper=combine(recipe.terms, ask.norm, ask.p),
        exceptional=recipe.exceptional,
    )


def _recorded(
    known: Smoothness, step: float, further: tuple[float, ...]
) -> tuple[tuple[float, float], ...] | None:
    """ω at all distances δ k/(2K), k = 1..2K: those of centres and of nodes; and further ones."""
    if known.modulus is None:
        return None
    distances = [step * shell / (2 * SHELLS) for shell in range(1, 2 * SHELLS + 1)] + [*further]
    return tuple((distance, known.change(distance)) for distance in distances)
