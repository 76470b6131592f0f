"""`anyseq.show(thing)`: the picture of a thing."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from matplotlib.figure import Figure

from anyseq.construct import Approximation
from anyseq.construct.contextual import Contextual
from anyseq.construct.explaining.explanation import Explanation
from anyseq.design import Design
from anyseq.errors import InvalidArgument
from anyseq.graph import Reach
from anyseq.patterns import Pattern, parse_pattern
from anyseq.pictures.compare import comparison_figure
from anyseq.pictures.contextual import contextual_figure
from anyseq.pictures.design import design_figure
from anyseq.pictures.explain import explanation_figure
from anyseq.pictures.pattern import pattern_figure
from anyseq.pictures.positions import positions_figure
from anyseq.pictures.reach import reach_figure
from anyseq.pictures.slice import slice_figure
from anyseq.verdicts import Comparison, Verdict


@singledispatch
def show(thing: Any, *arguments: Any, **options: Any) -> Figure:
    """A matplotlib Figure. A notebook displays it; `.savefig(file)` saves it.

    Approximation: T along a line through its worst input, with the proven band, and the target if
        you pass it: show(result, f=f).
    Comparison: how many layers each pair of tokens needs, design by design, and what a token costs.
    Design: which tokens each token attends to, in each of its layers.
    Explanation: what each stage did to one input: show(result.explain(x)).
    Pattern, or its text: which tokens each of n tokens attends to: show(pattern, tokens=16).
    Verdict: of a design that cannot tell equal tokens apart, which of them stay equal, layer by
        layer; of any other, how many layers each pair of tokens needs, as of its Reach.

    >>> import anyseq as aq
    >>> aq.show("window(2) | global(0)", tokens=16).savefig("pattern.png")
    >>> verdict = aq.check(aq.Design(16, aq.Window(2), position=aq.Rotary()))
    >>> aq.show(verdict).savefig("equal-tokens.png")
    """
    kind = type(thing).__name__
    raise InvalidArgument(
        f"show: no picture of {kind}; expected an Approximation, a Comparison, a Design, an "
        "Explanation, a Pattern, a Verdict or a Reach"
    )


show.register(Approximation, slice_figure)
show.register(Comparison, comparison_figure)
show.register(Contextual, contextual_figure)
show.register(Design, design_figure)
show.register(Explanation, explanation_figure)
show.register(Pattern, pattern_figure)
show.register(Reach, reach_figure)


@show.register
def _text_figure(text: str, tokens: int | None = None) -> Figure:
    return pattern_figure(parse_pattern(text), tokens)


@show.register
def _verdict_figure(verdict: Verdict) -> Figure:
    design = verdict.design
    if design is not None and any(
        one.rule == "positions" and one.holds is False for one in verdict.findings
    ):
        return positions_figure(design, verdict.headline)
    if verdict.reach is None:
        raise InvalidArgument(
            f"show: {verdict.subject}: it is not known which tokens each token reaches, since no "
            "design describes it; expected a verdict on a design, a pattern or a config that was "
            "read as a design"
        )
    return reach_figure(verdict.reach, verdict.headline)
