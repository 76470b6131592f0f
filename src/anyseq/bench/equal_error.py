"""Methods "yun" and "gather" sizes at which both prove the same L^2 error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from anyseq.base import EXACT_BITS, Progress, silent
from anyseq.construct import Example, Plan, plan
from anyseq.construct.methods.gather import gather
from anyseq.construct.methods.recipe import Recipe
from anyseq.construct.methods.yun import yun
from anyseq.construct.request.error import LP, combine
from anyseq.construct.request.smooth import Smoothness
from anyseq.construct.request.target import Target
from anyseq.design import Design
from anyseq.nn import Stack

_GRIDS = 8
_BOUND = 2.0  # of |f|: "plus-mean" comes up to it, the others stay below
_BUDGET = 10**15  # "gather" with the Lipschitz constant alone is planned only


def constants(example: Example, tokens: int) -> dict[str, Any]:
    """The constants of a function of one feature, per box where they are known so."""
    assert example.curvature is not None, "all built-in functions have one"
    return {
        "lipschitz": example.local_lipschitz or example.lipschitz(tokens, 1),
        "curvature": example.local_curvature or example.curvature(tokens, 1),
    }


def nonzero(model: Stack) -> int:
    """The parameters that are not 0."""
    return sum(int(tensor.count_nonzero()) for tensor in model.parameters())


def equal_error(
    examples: Sequence[Example], tokens: Sequence[int], progress: Progress = silent
) -> list[dict[str, Any]]:
    """The rows of every function, for each number of tokens."""
    rows: list[dict[str, Any]] = []
    for done, example in enumerate(examples):
        progress("equal errors", done, len(examples))
        for count in tokens:
            rows += _rows(example, count)
    progress("equal errors", len(examples), len(examples))
    return rows


def _rows(example: Example, tokens: int) -> list[dict[str, Any]]:
    """Parameters of "yun", and of "gather" with and without the curvature; those that are not 0.

    The errors are those that "yun" proves with every other grid, down to the finest that it can be
    planned for, and those in between that "gather" proves, by the curvature, with some grid.
    """
    lipschitz = example.lipschitz(tokens, 1)
    assert example.curvature is not None
    of_yun = _errors_of_yun(lipschitz, tokens)[-5::2]
    bend = Smoothness(curvature=example.curvature(tokens, 1))
    of_gather = [
        # a little more, for all that is not interpolation
        bend.interpolation(tokens, 1, 2.0**-log_steps, 2.0).value * tokens**0.5 * (1 + 1e-6) + 1e-9
        for log_steps in range(_GRIDS)
    ]
    between = {error for error in of_gather if of_yun[-1] < error < of_yun[0]}
    target, rows = Target(example, tokens, 1, None), []
    for error in sorted({*of_yun, *between}, reverse=True):
        alone = _plan(tokens, error, lipschitz=lipschitz)
        by_curvature = _plan(tokens, error, **constants(example, tokens)).choose(gather.NAME)
        literal = alone.choose(yun.NAME)
        rows.append(
            {
                "function": example.name,
                "tokens": tokens,
                "error": error,
                "yun": literal.shape.parameters,
                "yun_nonzero": _nonzero(literal, target),
                "gather": alone.choose(gather.NAME).shape.parameters,
                "gather_curvature": by_curvature.shape.parameters,
                "gather_curvature_nonzero": _nonzero(by_curvature, target),
            }
        )
    return rows


def _nonzero(recipe: Recipe, target: Target) -> int:
    """Counted in the network, which is built: a recipe has only the sizes of its tensors."""
    built = recipe.build(target, silent)
    assert built.largest <= _BOUND, "the plan was for such functions only"
    return nonzero(built.model())


def _plan(tokens: int, error: float, **known: Any) -> Plan:
    return plan(Design(tokens), 1, error, norm="lp", bound=_BOUND, budget=_BUDGET, **known)


def _errors_of_yun(lipschitz: float, tokens: int) -> list[float]:
    """What "yun" proves with one grid after the other, until the ids of Theorem 3 take too many
    bits."""
    errors: list[float] = []
    error = lipschitz * tokens
    while True:
        made = _plan(tokens, error, lipschitz=lipschitz)
        literal = made.choose(yun.NAME)
        assert isinstance(literal, yun.YunRecipe)
        if replace(literal, route=None).id_bits > EXACT_BITS:
            return errors
        errors.append(combine(literal.terms, LP, 2.0))
        error = errors[-1] * (1 - 1e-6)
