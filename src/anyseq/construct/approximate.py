"""`anyseq.approximate`: your function becomes an explicit Transformer."""

from __future__ import annotations

from dataclasses import replace

from anyseq.base import (
    UNIT_ROUNDOFF,
    Progress,
    at_least_one,
    generator,
    one_of,
    positive,
    silent,
)
from anyseq.construct import probe
from anyseq.construct.ask import Ask, Construction, Recipe
from anyseq.construct.error import NORMS, SUP, ErrorReport, combine
from anyseq.construct.methods import METHODS
from anyseq.construct.plan import DEFAULT_BUDGET, check_p, check_size, make_plan
from anyseq.construct.result import Approximation, Facts
from anyseq.construct.search import Seen, search
from anyseq.construct.stages import check_stages
from anyseq.construct.target import Function, Target
from anyseq.design import Design
from anyseq.errors import InvalidArgument, InvalidFunction
from anyseq.positions import NoPosition


def approximate(
    f: Function,
    design: Design,
    *,
    features: int,
    out_features: int | None = None,
    tol: float,
    norm: str = SUP,
    p: float = 2,
    method: str = "auto",
    lipschitz: float | None = None,
    budget: int | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> Approximation:
    """A Transformer of this design that is within tol of f on [0, 1]^(tokens x features).

    f: (batch, tokens, features) -> (batch, tokens, out_features), vectorised, torch float64.
    tol: sup norm: the largest entry of |f - T|; norm="lp": (∫ Σ|f - T|^p dx)^(1/p).
    method: "gather" (sup norm), "yun" (L^p, the literal Theorems 2 and 3), or "auto", the one with
        the fewest parameters.
    lipschitz: L with |f(x)-f(y)| <= L max|x-y|, entry by entry. With it the error is proved;
        without it L is estimated from samples and `error.upper` is None.
    budget: the most parameters allowed, 10^8 unless given.
    progress: called with (stage, done, total).
    """
    if not isinstance(design, Design):
        raise InvalidArgument(f"design={design!r}: expected an anyseq.Design")
    at_least_one("features", features)
    positive("tol", tol)
    one_of("norm", norm, NORMS)
    p = check_p(p)
    one_of("method", method, ("auto", *METHODS))
    budget = DEFAULT_BUDGET if budget is None else at_least_one("budget", budget)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise InvalidArgument(f"seed={seed!r}: expected a whole number from 0 to 2^63-1")
    if lipschitz is not None:
        check_size("lipschitz", lipschitz)
    if out_features is not None:
        at_least_one("out_features", out_features)

    rng = generator(seed)
    progress("look at f", 0, 1)
    target = Target(f, design.tokens, features, out_features)
    if isinstance(design.position, NoPosition):
        probe.check_equivariant(target, rng)
    if norm == SUP:
        probe.check_continuous(target, tol, lipschitz, rng)
    slope = probe.steepest(target, rng)
    if lipschitz is not None:
        probe.check_lipschitz(lipschitz, slope)
    # An L^p error is made by typical slopes; a jump would show as an endless one.
    estimate = slope.value if norm == SUP else slope.typical
    constant = estimate if lipschitz is None else float(lipschitz)
    progress("look at f", 1, 1)

    ask = Ask(
        design=design,
        features=features,
        out_features=target.out_features,
        tol=float(tol),
        norm=norm,
        p=p,
        lipschitz=constant,
        bound=check_size("largest |f|", probe.largest_value(target, constant)),
    )
    while True:
        recipe = make_plan(ask, budget).choose(method)
        construction = recipe.build(target, progress)
        if construction.largest > ask.bound + _noise(ask):
            if lipschitz is not None:
                raise InvalidFunction(
                    f"lipschitz={lipschitz:g} is too small: with it |f| would be at most "
                    f"{ask.bound:.6g}, but {construction.largest:.6g} was seen"
                )
            ask = replace(ask, bound=construction.largest)
            continue
        progress("search for the worst input", 0, 1)
        seen = search(target, construction.fused, ask, 2.0**-recipe.log_steps, seed)
        progress("search for the worst input", 1, 1)
        if lipschitz is not None:
            return _certified(recipe, construction, seen)
        if seen.estimate <= tol:
            return _conditional(recipe, construction, seen)
        # The estimate was too small: the error seen says so. Take a finer grid.
        ask = replace(ask, least_log_steps=recipe.log_steps + 1)


def _noise(ask: Ask) -> float:
    """What rounding inside f may do to its values: no contradiction is seen in less."""
    return 8 * UNIT_ROUNDOFF * ask.bound


def _certified(recipe: Recipe, construction: Construction, seen: Seen) -> Approximation:
    ask = recipe.ask
    upper = combine(recipe.terms, ask.norm, ask.p)
    for bound, found in ((upper, seen.lower), (recipe.pointwise, seen.at_error)):
        if found > bound + _noise(ask):
            raise InvalidFunction(
                f"lipschitz={ask.lipschitz:g} is too small: with it the error would be at most "
                f"{bound:.6g}, but {found:.6g} was seen; the worst input is {seen.at.tolist()}"
            )
    given = f"f is {ask.lipschitz:g}-Lipschitz in the max norm (given)"
    seen = replace(seen, lower=min(seen.lower, upper))
    return _assemble(recipe, construction, seen, "certified", upper, given)


def _conditional(recipe: Recipe, construction: Construction, seen: Seen) -> Approximation:
    guess = (
        f"nothing is proved: the grid is right if f is {recipe.ask.lipschitz:.4g}-Lipschitz in the "
        "max norm, an estimate from samples; give lipschitz= for a proved error"
    )
    return _assemble(recipe, construction, seen, "conditional", None, guess)


def _assemble(
    recipe: Recipe,
    construction: Construction,
    seen: Seen,
    status: str,
    upper: float | None,
    assumption: str,
) -> Approximation:
    ask = recipe.ask
    assumes = [assumption]
    if isinstance(ask.design.position, NoPosition):
        assumes.append(
            "f commutes with permutations of the tokens (no contradiction in 256 samples)"
        )
    return Approximation(
        facts=Facts(
            design=ask.design,
            method=recipe.method,
            status=status,
            tol=ask.tol,
            step=2.0**-recipe.log_steps,
            cells=recipe.cells,
            id_bits=recipe.id_bits,
            shape=recipe.shape,
            checked=construction.checked,
            stages=check_stages(construction.stages, recipe.shape),
        ),
        error=ErrorReport(
            norm=ask.norm,
            p=ask.p,
            upper=upper,
            lower=seen.lower,
            level=seen.level,
            at=seen.at,
            at_error=seen.at_error,
            exceptional=recipe.exceptional,
            terms=recipe.terms,
            assumes=tuple(assumes),
        ),
        fused=construction.fused,
        _make_model=construction.model,
    )
