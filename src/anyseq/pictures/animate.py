"""`anyseq.animate(thing)`: a thing, layer by layer."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from anyseq.construct import Approximation
from anyseq.construct.contextual import Contextual
from anyseq.construct.explaining.explanation import Explanation
from anyseq.construct.explaining.told import contextual_of
from anyseq.construct.tables.fused import CellTable
from anyseq.design import Design
from anyseq.errors import InvalidArgument
from anyseq.patterns import Pattern, parse_pattern, pattern_text
from anyseq.pictures.animation import Animation
from anyseq.pictures.growth import Grown, growth
from anyseq.pictures.stages import contextual_stages, explanation_stages
from anyseq.positions import NoPosition
from anyseq.verdicts import Comparison, Verdict, describe

_TOKENS = 24


@singledispatch
def animate(thing: Any, *arguments: Any, **options: Any) -> Animation:
    """An animation, layer by layer. A notebook plays it; `.save(file)` writes a .gif or .html.

    Comparison, Design or Verdict: which tokens each token reaches; and a sequence of equal tokens,
        a colour for each class of them that the layers so far can tell apart.
    Approximation by method "yun", of a design with dense attention: the ids of all tokens in all
        sequences, and how many differ after each layer of its contextual mapping.
    Explanation: what each layer did to one input: animate(result.explain(x)).
    Pattern, or its text: which tokens each of n tokens reaches: animate(pattern, tokens=16).

    >>> import anyseq as aq
    >>> found = aq.compare("window(2), rope", "longformer(2), urpe", tokens=24)
    >>> aq.animate(found).save("growth.gif")
    """
    kind = type(thing).__name__
    raise InvalidArgument(
        f"animate: no animation of {kind}; expected an Approximation, a Comparison, a Design, an "
        "Explanation, a Pattern or a Verdict"
    )


animate.register(Contextual, contextual_stages)
animate.register(Explanation, explanation_stages)


@animate.register
def _approximation(result: Approximation) -> Animation:
    dense = any(stage.name == "global shift" for stage in result.facts.stages)
    if dense and isinstance(result.fused, CellTable):
        context = contextual_of(result.fused, result.size.in_features)
        if context is not None:
            return contextual_stages(context)
    raise InvalidArgument(
        f'animate: a network by method "{result.method}" has no contextual mapping of dense '
        'attention; expected one by "yun", or result.explain(x), what it does to one input'
    )


@animate.register
def _design(design: Design) -> Animation:
    return growth([Grown.of(design, describe(design))])


@animate.register
def _pattern(pattern: Pattern, tokens: int | None = None) -> Animation:
    design = Design(tokens or pattern.natural_length or _TOKENS, pattern, position=NoPosition())
    return growth([Grown.of(design, pattern_text(pattern), positions=False)])


@animate.register
def _text(text: str, tokens: int | None = None) -> Animation:
    return _pattern(parse_pattern(text), tokens)


@animate.register
def _verdict(verdict: Verdict) -> Animation:
    if verdict.design is None:
        raise InvalidArgument(
            f"animate: no design describes {verdict.subject}; expected a verdict on a design, a "
            "pattern or a config that was read as a design"
        )
    name = describe(verdict.design)
    return growth([Grown.of(verdict.design, name, universal=verdict.universal)])


@animate.register
def _comparison(comparison: Comparison) -> Animation:
    cards = [card for card in comparison.cards if card.design is not None]
    if not cards:
        raise InvalidArgument(
            "animate: no design describes any of these; expected one or more that `read` can "
            "describe"
        )
    return growth(
        [
            Grown.of(card.design, card.subject, universal=card.universal)
            for card in cards
            if card.design is not None
        ]
    )
