"""`anyseq.plan`: what every method would build, before anything is built."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from typing import Any

from anyseq.base import at_least_one, one_of, positive, table, table_html
from anyseq.construct.methods import BY_NAME_ONLY, METHODS
from anyseq.construct.methods.fit.fit import FitRecipe
from anyseq.construct.methods.gather.wide import WideRecipe
from anyseq.construct.methods.recipe import Recipe
from anyseq.construct.request import needs
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.error import LP, MEAN, NORMS, SUP, combine, norm_name
from anyseq.construct.request.functions import known_constants
from anyseq.construct.request.kind import kind_asked
from anyseq.construct.request.smooth import Curvature, Lipschitz, Smoothness, given, size
from anyseq.construct.request.target import Function
from anyseq.construct.verbs.fewest import fewest_text
from anyseq.design import Design
from anyseq.errors import CannotApproximate, InvalidArgument

DEFAULT_BUDGET = 100_000_000
"""Parameters: 0.8 GB of float64."""

_COLUMNS = ("method", "δ", "layers", "width", "parameters", "cells", "id bits", "error", "~s")
_LARGER = (2, 4, 16, 64)  # times a tolerance that cannot be met: one of these may be

# Seconds to build, a rough guide: from networks of 3 and of 430 million parameters on two cores.
_SECONDS_PER_PARAMETER = 3e-8
_SECONDS_PER_VALUE = 1e-6


@dataclass(frozen=True)
class Plan:
    """The candidates for one question, with their sizes, and why other methods are out.

    `recipes` fit the budget. Those with a proof meet the tolerance and come first, cheapest (fewest
    parameters) first, after them those that "auto" does not take; those without a proof may meet
    it. `refused` maps the other methods to the reason.
    """

    ask: Ask
    budget: int
    recipes: tuple[Recipe, ...]
    refused: dict[str, str]

    def choose(self, method: str, *, proved: bool = False) -> Recipe:
        """The recipe of a method, or for "auto" the cheapest with a proof; if there is none, one
        without, unless `proved` asks for a proof."""
        found = self._first(method, proved)
        if found is not None:
            return found
        reasons = [
            f"{name}: {why}" for name, why in self.refused.items() if method in ("auto", name)
        ]
        reasons += [
            f"{recipe.method}: only by name, {BY_NAME_ONLY[recipe.method]}"
            if recipe.method in BY_NAME_ONLY
            else f"{recipe.method}: nothing is proved of its error; ask for it by name, "
            f'method="{recipe.method}"'
            for recipe in self.recipes
            if method == "auto"
        ]
        raise CannotApproximate(
            f"no construction meets tol={self.ask.tol:g} in {norm_name(self.ask.norm, self.ask.p)}",
            [*(_refuted(self.ask) or self._larger(method, proved=proved)), *reasons],
        )

    def _first(self, method: str, proved: bool) -> Recipe | None:
        for recipe in self.recipes:
            unasked = recipe.method not in BY_NAME_ONLY and (recipe.terms or not proved)
            if recipe.method == method or (method == "auto" and unasked):
                return recipe
        return None

    def _larger(self, method: str, *, proved: bool) -> list[str]:
        """A tolerance that can be met, if one of the next is."""
        for times in _LARGER:
            ask = replace(self.ask, tol=self.ask.tol * times)
            found = make_plan(ask, self.budget, method)._first(method, proved)
            if found is not None:
                size = f"{found.shape.parameters:,} parameters"
                return [f"tol={ask.tol:g} can be met, by {found.method} with {size}"]
        return []

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per candidate, for machines."""
        return [
            {
                "method": recipe.method,
                "step": _step(recipe),
                "layers": recipe.shape.layers,
                "attention_layers": recipe.shape.attention_layers,
                "width": recipe.shape.width,
                "heads": recipe.shape.heads,
                "parameters": recipe.shape.parameters,
                "cells": recipe.cells,
                "id_bits": recipe.id_bits,
                "notes": list(recipe.notes),
                "fits_float64": True,
                "error": combine(recipe.terms, self.ask.norm, self.ask.p) if recipe.terms else None,
                "seconds": _seconds(recipe),
            }
            for recipe in self.recipes
        ]

    def __str__(self) -> str:
        head, known = self._head()
        body = [table(_COLUMNS, self._cells())] if self.recipes else []
        lines = [textwrap.fill(note, 80, subsequent_indent="  ") for note in self._notes()]
        return "\n".join([head, textwrap.fill(known, 80), *body, *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table_html(
            _COLUMNS, self._cells(), title="\n".join(self._head()), notes=self._notes()
        )

    def _head(self) -> tuple[str, str]:
        ask = self.ask
        return (
            f"{ask.design.tokens} tokens x {ask.features} -> {ask.out_features} features, "
            f"error <= {ask.tol:g} in {norm_name(ask.norm, ask.p)}",
            f"for every f {self._known()}, |f| <= {ask.bound:.4g}{self._order()}",
        )

    def _cells(self) -> list[tuple[str, ...]]:
        """A row for each candidate."""
        return [
            (
                row["method"],
                f"1/{round(1 / row['step'])}" if row["step"] else "-",
                f"{row['layers']:,}",
                str(row["width"]),
                f"{row['parameters']:,}",
                f"{row['cells']:,}" if row["cells"] else "-",
                f"{row['id_bits']} of 53" if row["id_bits"] else "-",
                "sampled" if row["error"] is None else f"{row['error']:.3g}",
                f"{row['seconds']:.1g}" if row["seconds"] < 10 else f"{row['seconds']:.0f}",
            )
            for row in self.rows()
        ]

    def _notes(self) -> list[str]:
        """Why the other methods are out, and what to know about those that are in."""
        ask = self.ask
        notes = [f"{name}: {why}" for name, why in self.refused.items()]
        kind = kind_asked(ask)
        if kind != "all" and self.recipes:
            notes.append(f"f must be {kind}: the design is universal for such functions only")
        notes += [f"{recipe.method}: {note}" for recipe in self.recipes for note in recipe.notes]
        if any(not recipe.terms for recipe in self.recipes):
            notes.append(
                "sampled: not proved, so last; the error is measured on random inputs once built"
            )
        notes += [
            f"{recipe.method}: only by name, {BY_NAME_ONLY[recipe.method]}"
            for recipe in self.recipes
            if recipe.method in BY_NAME_ONLY
        ]
        least = fewest_text(ask, kind)
        notes = [*([least] if least else []), *notes]
        if not self.recipes:
            notes = [*self._larger("auto", proved=False), *notes]
        return notes

    def _known(self) -> str:
        smooth = self.ask.smoothness
        if smooth == Smoothness(smooth.lipschitz):
            return f"with Lipschitz constant {smooth.lipschitz:.4g} (max norm)"
        return str(smooth)

    def _order(self) -> str:
        if any(recipe.terms for recipe in self.recipes):
            return "; cheapest first"
        return ": no method proves it" if self.recipes else ": no method does it"


def plan(
    design: Design,
    features: int,
    tol: float,
    *,
    f: Function | None = None,
    lipschitz: Lipschitz | None = None,
    curvature: Curvature | None = None,
    norm: str = "sup",
    p: float = 2,
    out_features: int | None = None,
    bound: float = 1.0,
    budget: int | None = None,
) -> Plan:
    """What each method would build for this design, with sizes; nothing is built.

    It holds for every f that varies as `lipschitz` and `curvature` say (see `approximate`), with
    |f| <= bound. One of them is needed, or a function f of `anyseq.functions`, whose own constants
    are then used.
    budget: the most parameters allowed, 10^8 unless given.
    """
    if not isinstance(design, Design):
        raise InvalidArgument(f"design={design!r}: expected an anyseq.Design")
    needs.layers_alike(design)
    needs.patterns_that_fit(design)
    features = at_least_one("features", features)
    out_features = features if out_features is None else at_least_one("out_features", out_features)
    needs.few_entries(design, features, out_features)
    lipschitz, curvature = known_constants(f, design.tokens, features, lipschitz, curvature)
    smooth = given(lipschitz, curvature, design.tokens, features)
    if smooth is None:
        raise InvalidArgument(
            "lipschitz=None, curvature=None: expected one of them, or both, or f, one of "
            "anyseq.functions"
        )
    ask = Ask(
        design=design,
        features=features,
        out_features=out_features,
        tol=positive("tol", tol),
        norm=one_of("norm", norm, NORMS),
        p=check_p(p, norm),
        lipschitz=smooth.lipschitz,
        bound=size("bound", bound),
        smooth=smooth,
    )
    return make_plan(ask, DEFAULT_BUDGET if budget is None else at_least_one("budget", budget))


def make_plan(ask: Ask, budget: int, method: str = "auto") -> Plan:
    """The plan for a checked question: of all methods, or of the one that is named."""
    recipes, refused = [], {}
    for name in METHODS if method == "auto" else (method,):
        try:
            recipe = METHODS[name](ask)
            _check_size(recipe, budget)
        except CannotApproximate as refusal:
            refused[name] = str(refusal)
        else:
            recipes.append(recipe)
    recipes.sort(
        key=lambda recipe: (
            not recipe.terms,
            recipe.method in BY_NAME_ONLY,
            recipe.shape.parameters,
        )
    )
    return Plan(ask, budget, tuple(recipes), refused)


def _refuted(ask: Ask) -> list[str]:
    """Why no construction can exist, if `check` knows."""
    try:
        verdict = ask.verdicts.of(ask.design, SUP if ask.norm == SUP else LP)
    except InvalidArgument:  # a probability map of the caller's own, of which no theorem speaks
        return []
    if verdict.universal is not False or kind_asked(ask) != "all":
        return []
    return [f"not every f can be expressed by this design. {verdict.witness}"]


def check_p(p: object, norm: str) -> float:
    """The exponent of L^p, 1 <= p < ∞; that of a mean absolute error is 1."""
    number = positive("p", p)
    if number < 1:
        raise InvalidArgument(f"p={p!r}: expected a number, 1 or more (norm='sup' is p = ∞)")
    return 1.0 if norm == MEAN else number


def _check_size(recipe: Recipe, budget: int) -> None:
    shape, depth = recipe.shape, recipe.ask.design.depth
    if shape.parameters > budget:
        grid = f" (δ = 2^-{recipe.log_steps}, {recipe.cells:,} cells)" if _step(recipe) else ""
        raise CannotApproximate(
            f"it needs {shape.parameters:,} parameters in {shape.layers:,} layers"
            f"{grid}; the budget is {budget:,} (budget=)"
        )
    if depth is not None and depth != shape.layers:
        raise CannotApproximate(f"it needs {shape.layers:,} layers; the design has depth={depth}")


def _step(recipe: Recipe) -> float | None:
    """δ; None where there are no cells: if a net is fitted, or in one wide layer, whose steps are
    the knots of ridges."""
    return None if isinstance(recipe, FitRecipe | WideRecipe) else 2.0**-recipe.log_steps


def _seconds(recipe: Recipe) -> float:
    """A rough guide to the seconds it takes to build."""
    if isinstance(recipe, FitRecipe):
        return recipe.seconds
    return recipe.shape.parameters * _SECONDS_PER_PARAMETER + recipe.cells * _SECONDS_PER_VALUE
