"""`anyseq.plan`: what every method would build, before anything is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anyseq.base import at_least_one, non_negative, one_of, positive, table
from anyseq.construct import needs
from anyseq.construct.ask import Ask, Recipe
from anyseq.construct.error import NORMS, combine
from anyseq.construct.methods import METHODS
from anyseq.design import Design
from anyseq.errors import CannotApproximate, InvalidArgument

DEFAULT_BUDGET = 100_000_000
"""Parameters: 0.8 GB of float64."""

# Seconds to build, a rough guide: from networks of 3 and of 430 million parameters on two cores.
_SECONDS_PER_PARAMETER = 3e-8
_SECONDS_PER_VALUE = 1e-6


@dataclass(frozen=True)
class Plan:
    """The candidates for one question, with their sizes, and why other methods are out.

    `recipes` meet the tolerance and fit the budget, cheapest (fewest parameters) first; `refused`
    maps the other methods to the reason.
    """

    ask: Ask
    budget: int
    recipes: tuple[Recipe, ...]
    refused: dict[str, str]

    def choose(self, method: str) -> Recipe:
        """The recipe of a method, or the cheapest of all for "auto"."""
        for recipe in self.recipes:
            if method in ("auto", recipe.method):
                return recipe
        reasons = [
            f"{name}: {why}" for name, why in self.refused.items() if method in ("auto", name)
        ]
        raise CannotApproximate(
            f"no construction meets tol={self.ask.tol:g} in {norm_name(self.ask)}",
            [*_refuted(self.ask), *reasons],
        )

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per candidate, for machines."""
        return [
            {
                "method": recipe.method,
                "step": 2.0**-recipe.log_steps,
                "layers": recipe.shape.layers,
                "attention_layers": recipe.shape.attention_layers,
                "width": recipe.shape.width,
                "heads": recipe.shape.heads,
                "parameters": recipe.shape.parameters,
                "cells": recipe.cells,
                "id_bits": recipe.id_bits,
                "fits_float64": True,
                "error": combine(recipe.terms, self.ask.norm, self.ask.p),
                "seconds": recipe.shape.parameters * _SECONDS_PER_PARAMETER
                + recipe.cells * _SECONDS_PER_VALUE,
            }
            for recipe in self.recipes
        ]

    def __str__(self) -> str:
        ask = self.ask
        head = (
            f"{ask.design.tokens} tokens x {ask.features} -> {ask.out_features} features, "
            f"error <= {ask.tol:g} in {norm_name(ask)}\n"
            f"for every f with Lipschitz constant {ask.lipschitz:.4g} (max norm), |f| <= "
            f"{ask.bound:.4g}{'; cheapest first' if self.recipes else ': no method does it'}"
        )
        body = table(
            ("method", "δ", "layers", "width", "parameters", "cells", "id bits", "error", "~s"),
            [
                (
                    row["method"],
                    f"1/{round(1 / row['step'])}",
                    f"{row['layers']:,}",
                    str(row["width"]),
                    f"{row['parameters']:,}",
                    f"{row['cells']:,}",
                    f"{row['id_bits']} of 53" if row["id_bits"] else "-",
                    f"{row['error']:.3g}",
                    f"{row['seconds']:.1g}",
                )
                for row in self.rows()
            ],
        )
        notes = [f"{name}: {why}" for name, why in self.refused.items()]
        padding = max(0, ask.out_features - ask.features)
        if padding and any(recipe.method == "yun" for recipe in self.recipes):
            notes.append(f"yun: {padding} features of zeros are added to hold the outputs")
        return "\n".join([head, *([body] if self.recipes else []), *notes])

    __repr__ = __str__


def plan(
    design: Design,
    features: int,
    tol: float,
    *,
    lipschitz: float,
    norm: str = "sup",
    p: float = 2,
    out_features: int | None = None,
    bound: float = 1.0,
    budget: int | None = None,
) -> Plan:
    """What each method would build for this design, with sizes; nothing is built.

    It holds for every f with |f(x)-f(y)| <= lipschitz·max|x-y|, entry by entry, and |f| <= bound.
    budget: the most parameters allowed, 10^8 unless given.
    """
    if not isinstance(design, Design):
        raise InvalidArgument(f"design={design!r}: expected an anyseq.Design")
    features = at_least_one("features", features)
    ask = Ask(
        design=design,
        features=features,
        out_features=features
        if out_features is None
        else at_least_one("out_features", out_features),
        tol=positive("tol", tol),
        norm=one_of("norm", norm, NORMS),
        p=check_p(p),
        lipschitz=check_size("lipschitz", lipschitz),
        bound=check_size("bound", bound),
    )
    return make_plan(ask, DEFAULT_BUDGET if budget is None else at_least_one("budget", budget))


def make_plan(ask: Ask, budget: int) -> Plan:
    """The plan for a checked question."""
    needs.patterns_that_fit(ask.design)
    recipes, refused = [], {}
    for name, make_recipe in METHODS.items():
        try:
            recipe = make_recipe(ask)
            _check_size(recipe, budget)
        except CannotApproximate as refusal:
            refused[name] = str(refusal)
        else:
            recipes.append(recipe)
    recipes.sort(key=lambda recipe: recipe.shape.parameters)
    return Plan(ask, budget, tuple(recipes), refused)


def _refuted(ask: Ask) -> list[str]:
    """Why no construction can exist, if `check` knows."""
    from anyseq.verdicts import check  # slow to load, and only a refusal needs it

    try:
        verdict = check(ask.design, norm=ask.norm)
    except InvalidArgument:  # a probability map of the caller's own, of which no theorem speaks
        return []
    if verdict.universal is not False:
        return []
    return [f"not every f can be expressed by this design. {verdict.witness}"]


def check_p(p: object) -> float:
    """The exponent of L^p, 1 <= p < ∞."""
    number = positive("p", p)
    if number < 1:
        raise InvalidArgument(f"p={p!r}: expected a number, 1 or more (norm='sup' is p = ∞)")
    return number


def check_size(name: str, value: object) -> float:
    """A number >= 0 that leaves room to multiply: constants of f up to 2^500."""
    number = non_negative(name, value)
    if number > 2.0**500:
        raise InvalidArgument(f"{name}={value!r}: expected at most 2^500; scale f down")
    return number


def norm_name(ask: Ask) -> str:
    """The norm as people write it."""
    return "sup norm" if ask.norm == "sup" else f"L^{ask.p:g} norm"


def _check_size(recipe: Recipe, budget: int) -> None:
    shape, depth = recipe.shape, recipe.ask.design.depth
    if shape.parameters > budget:
        raise CannotApproximate(
            f"it needs {shape.parameters:,} parameters in {shape.layers:,} layers "
            f"(δ = 2^-{recipe.log_steps}, {recipe.cells:,} cells); the budget is {budget:,}"
        )
    if depth is not None and depth != shape.layers:
        raise CannotApproximate(
            f"it needs exactly {shape.layers:,} layers; the design has depth={depth}"
        )
