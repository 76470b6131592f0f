"""`anyseq.approximate`: your function becomes an explicit Transformer."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from anyseq.base import (
    EXACT_BITS,
    UNIT_ROUNDOFF,
    Progress,
    at_least_one,
    generator,
    one_of,
    positive,
    silent,
)
from anyseq.construct.methods import METHODS
from anyseq.construct.methods.fit import fit
from anyseq.construct.methods.recipe import Construction, Recipe
from anyseq.construct.network.built import Facts
from anyseq.construct.network.stages import check_stages
from anyseq.construct.request import needs, probe
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.error import (
    CONDITIONAL,
    NORMS,
    SAMPLED,
    SUP,
    ErrorReport,
    Term,
    combine,
    proved_status,
)
from anyseq.construct.request.functions import known_constants
from anyseq.construct.request.kind import ASSUMES, check_kind, kind_asked
from anyseq.construct.request.smooth import Curvature, Lipschitz, Smoothness, given, size
from anyseq.construct.request.target import Function, Target
from anyseq.construct.request.verdicts import Verdicts
from anyseq.construct.results.result import Approximation
from anyseq.construct.verbs.claims import claim_of
from anyseq.construct.verbs.plan import DEFAULT_BUDGET, check_p, make_plan
from anyseq.construct.verbs.search import LEVEL, SAMPLES, Seen, search
from anyseq.design import Design
from anyseq.errors import CannotApproximate, InvalidArgument, InvalidFunction


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
    lipschitz: Lipschitz | None = None,
    curvature: Curvature | None = None,
    budget: int | None = None,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    progress: Progress = silent,
) -> Approximation:
    """A Transformer of this design that is within tol of f on [0, 1]^(tokens x features).

    Where `anyseq.check` proves the design universal for causal functions only, or for equivariant
    ones only, f must be of that kind.

    f: (batch, tokens, features) -> (batch, tokens, out_features), vectorised, torch float64.
    tol: sup norm: the largest entry of |f - T|; "lp": (∫ Σ|f - T|^p dx)^(1/p), the sum
        over all entries; "mean": the mean absolute error, over all inputs and entries.
    method: "gather" (sup norm), "sum" (sup norm, f that commute with permutations), "boltzmann"
        (L^p, looked up by cells), "yun" (L^p, the literal theorems), "partition" (sup norm; with a
        memory, which is no part of the design), "fit" (many dimensions; fitted to samples, nothing
        proved; "lp" or "mean"), or "auto", the one with the fewest parameters among those of the
        design with a proof. Where none of them serves, "auto" takes "fit", unless lipschitz= or
        curvature= asks for a proof.
    lipschitz: L with |f(x)-f(y)| <= L max|x-y|, entry by entry; or one L_k per feature, with
        |f(x)-f(y)| <= Σ_k L_k max_j |x_jk - y_jk|; or a modulus of continuity, a nondecreasing
        function ω with |f(x)-f(y)| <= ω(max|x-y|).
    curvature: M, a bound for the second derivative of any entry of f along any unit vector (in the
        Euclidean norm), wherever no two entries of x are equal: f must be continuous, but may have
        kinks at x_i = x_j, as sort and max have. Method "gather" then needs about the square root
        of the steps.
        Either may be an `anyseq.Local`, which gives it per box. Method "gather" then takes small
        cells only where the error asks for them, if that needs fewer parameters; all else uses the
        constant of the whole cube.
        With `lipschitz` or `curvature` the error is proved; without, L is estimated from samples
        and `error.upper` is None. Functions of `anyseq.functions` bring their own constants, which
        are used if neither is given.
    budget: the most parameters allowed, 10^8 unless given.
    checkpoint: a folder for the state of "fit": if it is stopped, the same call goes on from there.
    progress: called with (stage, done, total).
    """
    if not isinstance(design, Design):
        raise InvalidArgument(f"design={design!r}: expected an anyseq.Design")
    needs.layers_alike(design)
    needs.patterns_that_fit(design)
    at_least_one("features", features)
    positive("tol", tol)
    one_of("norm", norm, NORMS)
    p = check_p(p, norm)
    one_of("method", method, ("auto", *METHODS))
    budget = DEFAULT_BUDGET if budget is None else at_least_one("budget", budget)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise InvalidArgument(f"seed={seed!r}: expected a whole number from 0 to 2^63-1")
    if checkpoint is not None and method not in ("auto", fit.NAME):
        raise InvalidArgument(f"checkpoint={str(checkpoint)!r} is for method='fit', not {method!r}")
    lipschitz, curvature = known_constants(f, design.tokens, features, lipschitz, curvature)
    smooth = given(lipschitz, curvature, design.tokens, features)
    if out_features is not None:
        at_least_one("out_features", out_features)
    needs.few_entries(design, features, out_features or features)

    rng = generator(seed)
    progress("look at f", 0, 1)
    target = Target(f, design.tokens, features, out_features)
    verdicts = Verdicts()
    check_kind(design, norm, target, rng, verdicts)
    if norm == SUP:
        probe.check_continuous(target, tol, smooth, rng)
    slope = probe.steepest(target, rng)
    if smooth is not None:
        probe.check_smooth(target, smooth, slope, seed)
    # An L^p error is made by typical slopes; a jump would show as an endless one.
    estimate = slope.value if norm == SUP else slope.typical
    known = smooth or Smoothness(estimate)
    progress("look at f", 1, 1)

    ask = Ask(
        design=design,
        features=features,
        out_features=target.out_features,
        tol=float(tol),
        norm=norm,
        p=p,
        lipschitz=known.lipschitz,
        bound=size("largest |f|", probe.largest_value(target, known)),
        smooth=known,
        seed=seed,
        checkpoint=checkpoint,
        verdicts=verdicts,
    )
    while True:
        recipe = make_plan(ask, budget, method).choose(method, proved=smooth is not None)
        construction = recipe.build(target, progress)
        if not recipe.terms:
            return _sampled(recipe, construction, _search(target, recipe, construction, progress))
        if construction.largest > ask.bound + _noise(ask):
            if smooth is not None:
                raise InvalidFunction(
                    f"{_named(smooth)} is too small: with it |f| would be at most "
                    f"{ask.bound:.6g}, but {construction.largest:.6g} was seen"
                )
            ask = replace(ask, bound=construction.largest)
            continue
        seen = _search(target, recipe, construction, progress)
        if smooth is not None:
            return _certified(recipe, construction, seen)
        if seen.estimate <= tol:
            return _conditional(recipe, construction, seen)
        # The estimate was too small: the error seen says so. Take a finer grid.
        ask = replace(ask, least_log_steps=recipe.log_steps + 1)


def _search(target: Target, recipe: Recipe, construction: Construction, progress: Progress) -> Seen:
    progress("search for the worst input", 0, 1)
    ask = recipe.ask
    seen = search(target, construction.fused, ask, 2.0**-recipe.log_steps, ask.seed)
    progress("search for the worst input", 1, 1)
    return seen


def _noise(ask: Ask) -> float:
    """What rounding inside f may do to its values: no contradiction is seen in less."""
    return 8 * UNIT_ROUNDOFF * ask.bound


def _certified(recipe: Recipe, construction: Construction, seen: Seen) -> Approximation:
    ask = recipe.ask
    upper = combine(recipe.terms, ask.norm, ask.p)
    for bound, found in ((upper, seen.lower), (recipe.pointwise, seen.at_error)):
        if found > bound + _noise(ask):
            raise InvalidFunction(
                f"{_named(ask.smoothness)} is too small: with it the error would be at most "
                f"{bound:.6g}, but {found:.6g} was seen; the worst input is {seen.at.tolist()}"
            )
    assumption = f"f is {ask.smoothness} (given)"
    seen = replace(seen, lower=min(seen.lower, upper))
    status = proved_status(recipe.terms)
    return _assemble(recipe, construction, seen, status, upper, assumption)


def _named(smooth: Smoothness) -> str:
    """What was given, as the arguments that gave it."""
    if smooth.modulus is not None:
        first = "lipschitz (a modulus)"
    elif smooth.per_feature is not None:
        first = f"lipschitz={smooth.per_feature}"
    else:
        first = f"lipschitz={smooth.lipschitz:g}" if smooth.continuous else ""
    second = f"curvature={smooth.curvature:g}" if smooth.curvature < math.inf else ""
    return " or ".join(part for part in (first, second) if part)


def _conditional(recipe: Recipe, construction: Construction, seen: Seen) -> Approximation:
    guess = (
        f"nothing: no bound is proven. The grid is fine enough if f is {recipe.ask.lipschitz:.4g}-"
        "Lipschitz in the max norm, an estimate from samples; give lipschitz= or curvature= for a "
        "proven bound"
    )
    return _assemble(recipe, construction, seen, CONDITIONAL, None, guess)


def _sampled(recipe: Recipe, construction: Construction, seen: Seen) -> Approximation:
    low, high = seen.likely
    if seen.estimate > recipe.ask.tol:
        raise CannotApproximate(
            f"{recipe.method}: on held-out inputs the error met tol={recipe.ask.tol:g}, but on "
            f"{SAMPLES:,} fresh ones it is {seen.estimate:.4g}; take a smaller tol, or another seed"
        )
    measured = Term(
        "measured",
        seen.estimate,
        "samples",
        f"on {SAMPLES:,} fresh random inputs; from {low:.4g} to {high:.4g} at {LEVEL:.0%}",
    )
    nothing = (
        "nothing: no bound is proven. The error is a mean over random inputs, uniform in the cube; "
        "single inputs may have larger errors"
    )
    return _assemble(recipe, construction, seen, SAMPLED, None, nothing, (measured,))


def _assemble(
    recipe: Recipe,
    construction: Construction,
    seen: Seen,
    status: str,
    upper: float | None,
    assumption: str,
    terms: tuple[Term, ...] | None = None,
) -> Approximation:
    ask = recipe.ask
    kind = kind_asked(ask)
    assumes = [assumption, *([ASSUMES[kind]] if kind in ASSUMES else [])]
    bits = recipe.id_bits
    ids = {} if bits is None else {"ids of": f"{bits} bits (float64 holds {EXACT_BITS})"}
    return Approximation(
        facts=Facts(
            design=ask.design,
            method=recipe.method,
            status=status,
            tol=ask.tol,
            step=2.0**-recipe.log_steps,
            cells=recipe.cells,
            shape=recipe.shape,
            checked={**ids, **construction.checked},
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
            terms=recipe.terms if terms is None else terms,
            assumes=tuple(assumes),
        ),
        fused=construction.fused,
        _make_model=construction.model,
        _claim=None if upper is None else claim_of(recipe),
    )
