"""A cap on scores that follows an additive bias: what it may reveal, as finer labels."""

from __future__ import annotations

from dataclasses import replace

from anyseq.design import Design, Layer
from anyseq.positions import URPE, Place, Shaw, base_of

CAPPED = "scores are capped after a bias is added, about which nothing is proved"


def as_capped(design: Design) -> Design | None:
    """A design that tells apart all that this one does if its scores are capped, so that what
    cannot be done in it cannot be done with the cap; None where no bias is added to scores.

    The score of a key is then not the sum of a part for its colour and a part for its label, so
    that neither the exception of rank one (docs/theorems.md, Lemma 2) nor a shift of a row's labels
    is safe. Gains for each offset show the tables T_i themselves, and keep all labels.
    """
    layers = design.layer_cycle
    if not any(map(_is_biased, layers)):
        return None
    return design.with_layers([_finer(layer) if _is_biased(layer) else layer for layer in layers])


def _is_biased(layer: Layer) -> bool:
    base = base_of(layer.position)
    return layer.attends and (Place.BIAS in base.acts_in or isinstance(base, Shaw))


def _finer(layer: Layer) -> Layer:
    return (
        layer if isinstance(layer.position, URPE) else replace(layer, position=URPE(layer.position))
    )
