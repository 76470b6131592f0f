"""What is claimed of a network and its table, in plain numbers: all there is besides tensors."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ramps:
    """Cells [k/steps, (k+1)/steps] of one entry of x, without what lies on a ramp: the last `width`
    of every cell, in the last one what is beyond `last`. measure: of the entries left out."""

    width: float
    last: float
    measure: float


@dataclass(frozen=True)
class Facts:
    """|f - T| <= upper in the norm, for every f that varies as stated, |f| <= bound, and whose
    values are the table's.

    parts: what T is, and so what a row of the table holds f at. "simplices": the interpolant of its
        nodes' values on the Kuhn simplices of a grid; "boxes": a sum of hats at the corners of
        boxes of several sizes; "ridges": a sum of ridges, from the nodes of a kernel; "cells": one
        value for each sequence of cells, off the ramps; "grids": a mean over several grids of
        cells; "centres": a mean over memory tokens.
    rows: of cells, "sequences" (the last token fastest), "multisets", or "sets" of different cells.
    kind: "all" f, or f that are "causal" or "equivariant", commuting with permutations.
    lipschitz, per_feature, curvature: None where not given. They are those of the whole cube; a
        table of boxes holds those of its boxes.
    modulus: pairs (h, ω(h)) wherever the bound uses ω.
    terms: the parts of the error (name, part of the domain, value).
    exceptional: the measure of the inputs without a pointwise bound.
    starts: whole numbers that tokens are raised by before they are cut into cells, if they are.
    ramps: of a table of cells.
    memory: the first features that a memory reads and that it writes, if there is one.
    """

    tokens: int
    features: int
    out_features: int
    steps: int
    parts: str
    rows: str
    kind: str
    norm: str
    p: float
    bound: float
    lipschitz: float | None
    per_feature: tuple[float, ...] | None
    modulus: tuple[tuple[float, float], ...] | None
    curvature: float | None
    terms: tuple[tuple[str, str, float], ...]
    upper: float
    exceptional: float
    starts: tuple[int, ...] | None
    ramps: Ramps | None
    memory: tuple[int, int] | None

    @property
    def axes(self) -> int:
        """D, the entries of x."""
        return self.tokens * self.features

    @property
    def cells(self) -> int:
        """Of one token."""
        return int(self.steps**self.features)

    @property
    def by_order(self) -> bool:
        """Whether a row is for one order of the tokens; otherwise it holds for equivariant f only,
        which says the values for the others."""
        return self.rows == "sequences"
