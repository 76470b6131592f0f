"""`anyseq approximate`."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

from anyseq.cli.design import DENSE, Options
from anyseq.cli.question import find_function
from anyseq.cli.terminal import progress_bar, say, say_json

# What is slow to import is imported where it is used, so that --help is not.


def approximate(
    *,
    function: str,
    tokens: int,
    tol: float,
    features: int = 1,
    out_features: int | None = None,
    lipschitz: float | None = None,
    curvature: float | None = None,
    norm: str = "sup",
    p: float = 2.0,
    method: str = "auto",
    design: Options = DENSE,
    budget: int | None = None,
    seed: int = 0,
    checkpoint: Path | None = None,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Turn a function into an explicit Transformer, with its error.

    Parameters
    ----------
    function
        sort, reverse, running-max, prefix-mean, times-max, cosine, waves, attention, plus-mean,
        mean-square, neighbours, bump, spike, kuramoto, or module:callable of your own.
    tokens
        Tokens in a sequence.
    tol
        The error allowed.
    features
        Features of a token.
    out_features
        Features of an output; as many as the function returns, unless given.
    lipschitz
        L with |f(x)-f(y)| <= L max|x-y|; built-in functions know theirs. Without it, and without
        --curvature, the error is not proved.
    curvature
        M, a bound for every second derivative along a unit vector, wherever no two entries of x are
        equal; built-in functions know theirs, unless --lipschitz or --curvature is given.
    norm
        sup: the largest error over all inputs; lp: the error averaged over all inputs, as a mean
        of p-th powers; mean: the mean absolute error over inputs and entries.
    p
        The exponent of lp.
    method
        gather, sum, boltzmann, partition, yun, fit or auto.
    budget
        The most parameters allowed.
    seed
        For the search of the worst input, and for fit.
    checkpoint
        A folder for the state of fit: after Ctrl-C the same command resumes bit-identically.
    out
        A new folder to save the network in.
    json
        Print JSON.
    """
    from anyseq.base import check_new
    from anyseq.construct import approximate as construct

    if out is not None:
        check_new(out)
    asked = design.at(tokens)
    f = find_function(function)
    # what a user's function prints must not get between the lines of a result
    with redirect_stdout(sys.stderr), progress_bar() as progress:
        result = construct(
            f,
            asked,
            features=features,
            out_features=out_features,
            tol=tol,
            norm=norm,
            p=p,
            method=method,
            lipschitz=lipschitz,
            curvature=curvature,
            budget=budget,
            seed=seed,
            checkpoint=checkpoint,
            progress=progress,
        )
        if out is not None:
            result.save(out, progress)
    if json:
        say_json(result.to_dict())
    else:
        say(repr(result))
        if out is not None:
            say(f"saved in {out}")
