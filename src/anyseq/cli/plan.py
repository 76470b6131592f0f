"""`anyseq plan`."""

from __future__ import annotations

from anyseq.cli.design import DENSE, Options
from anyseq.cli.question import find_function
from anyseq.cli.terminal import say, say_json
from anyseq.errors import InvalidArgument

# What is slow to import is imported where it is used, so that --help is not.


def plan(
    *,
    tokens: int,
    tol: float,
    function: str | None = None,
    features: int = 1,
    out_features: int | None = None,
    lipschitz: float | None = None,
    curvature: float | None = None,
    bound: float = 1.0,
    norm: str = "sup",
    p: float = 2.0,
    design: Options = DENSE,
    budget: int | None = None,
    json: bool = False,
) -> None:
    """What each method would build, with sizes, before anything is built.

    Parameters
    ----------
    tokens
        Tokens in a sequence.
    tol
        The error allowed.
    function
        A built-in function whose constants to use.
    features
        Features of a token.
    out_features
        Features of an output; as many as the input unless given.
    lipschitz
        L with |f(x)-f(y)| <= L max|x-y|; needed unless --function knows it or --curvature is
        given.
    bound
        The largest |f|.
    curvature
        M, a bound for every second derivative along a unit vector, wherever no two entries of x are
        equal; built-in functions know theirs, unless --lipschitz or --curvature is given.
    norm
        sup: the largest error over all inputs; lp: the error averaged over all inputs, as a mean
        of p-th powers; mean: the mean absolute error over inputs and entries.
    p
        The exponent of lp.
    budget
        The most parameters allowed.
    json
        Print JSON.
    """
    from anyseq.construct import plan as make_plan
    from anyseq.construct.request.functions import Example

    asked = design.at(tokens)
    f = None if function is None else find_function(function)
    if lipschitz is None and curvature is None and not isinstance(f, Example):
        raise InvalidArgument(
            "give --lipschitz or --curvature; only built-in functions, --function sort etc., bring "
            "their constants"
        )
    made = make_plan(
        asked,
        features,
        tol,
        f=f,
        lipschitz=lipschitz,
        curvature=curvature,
        norm=norm,
        p=p,
        out_features=out_features,
        bound=bound,
        budget=budget,
    )
    if json:
        say_json({"candidates": made.rows(), "refused": made.refused})
    else:
        say(str(made))
