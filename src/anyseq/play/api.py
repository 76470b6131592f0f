"""What the page asks the library: JSON in, JSON out. A wrong question is an InvalidArgument.

Work is bounded: few tokens, few parameters, and a time after which the answer is that it ran out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from anyseq.base import OutOfTime, check_time, one_of, remaining, within
from anyseq.construct import FUNCTIONS, approximate
from anyseq.construct.request.target import Function
from anyseq.design import Design
from anyseq.errors import AnyseqError, CannotApproximate, InvalidArgument
from anyseq.graph import reach, refine
from anyseq.patterns import FromMask, Pattern, parse_pattern
from anyseq.play.formula import parse
from anyseq.play.network import described, design_text
from anyseq.play.shipped import formula_of
from anyseq.positions import Place, parse_position
from anyseq.verdicts import NORMS, TARGETS, Verdict, check

CHECK_TOKENS = 64
CHECK_SECONDS = 30.0
VERDICT_SECONDS = 3.0  # of each, one for every norm and target
NETWORK_TOKENS = 6
NETWORK_SECONDS = 30.0
NETWORK_PARAMETERS = 1_000_000
MOST_TOL = 1e6
METHODS = ("auto", "gather", "sum", "partition")
MOST_LAYERS = 256
LONGEST_TEXT = 400

Body = Mapping[str, Any]
Answer = dict[str, Any]


class TookTooLong(AnyseqError):
    """The time for an answer was used up."""


# ---- check ----


def check_design(body: Body) -> Answer:
    """{tokens, mask | pattern, position, bos, depth, prob_map} -> {verdicts, reach, colours}."""
    _known(body, {"tokens", "mask", "pattern", "position", "bos", "depth", "prob_map"})
    design = _design(body, CHECK_TOKENS)
    try:
        with within(CHECK_SECONDS):
            return _checked(design)
    except OutOfTime:
        raise TookTooLong(
            f"no answer within {CHECK_SECONDS:g} seconds: ask for fewer tokens"
        ) from None


def _checked(design: Design) -> Answer:
    return {
        "verdicts": [
            _verdict(check(design, norm=norm, target=target, seconds=VERDICT_SECONDS))
            for target in TARGETS
            for norm in NORMS
        ],
        "reach": _reached(design),
        "colours": _colours(design),
    }


def _verdict(verdict: Verdict) -> Answer:
    return {
        "norm": verdict.norm,
        "target": verdict.target,
        "universal": verdict.universal,
        "headline": verdict.headline,
        "reason": verdict.reason,
        "findings": [
            {"rule": one.rule, "holds": one.holds, "saw": one.saw, "theorem": one.theorem}
            for one in verdict.findings
        ],
    }


def _reached(design: Design) -> list[list[list[int]]]:
    """[t][k][j]: whether token j reaches token k within t layers, up to the last that adds a pair
    or the depth."""
    layers = reach(design).layers_per_pair()
    last = int(min(layers.max(initial=0), math.inf if design.depth is None else design.depth))
    return [((layers >= 0) & (layers <= after)).astype(int).tolist() for after in range(last + 1)]


def _colours(design: Design) -> list[list[int]]:
    """[t][k]: the colour of token k after t rounds of refinement, up to the last that adds one."""
    apart = Place.INPUT in design.input_position.acts_in
    begin = np.arange(design.tokens) if apart else np.zeros(design.tokens, dtype=int)
    rounds = refine(design).rounds
    return [begin.tolist()] + [
        refine(replace(design, depth=depth)).classes.tolist() for depth in range(1, rounds + 1)
    ]


# ---- approximate ----


def approximate_function(body: Body) -> Answer:
    """{function | formula, tokens, tol, mask | pattern, position, bos, prob_map, method} ->
    {network, notes}, or {refused, reasons}."""
    design_fields = {"mask", "pattern", "position", "bos", "prob_map"}
    _known(body, {"function", "formula", "tokens", "tol", "method"} | design_fields)
    design = _design(body, NETWORK_TOKENS)
    method = one_of("method", body.get("method", "auto"), METHODS)
    tol: Any = body.get("tol")
    if type(tol) not in (int, float) or not 0 < tol <= MOST_TOL:
        raise InvalidArgument(f"tol={tol!r}: expected a number above 0, up to {MOST_TOL:g}")
    try:
        with within(NETWORK_SECONDS):
            return _approximated(body, design, float(tol), method)
    except CannotApproximate as refusal:
        return {"refused": refusal.summary, "reasons": list(refusal.reasons)}


def _approximated(body: Body, design: Design, tol: float, method: str) -> Answer:
    if ("function" in body) == ("formula" in body):
        raise InvalidArgument("function or formula: expected one of the two")
    constants: dict[str, float] = {}
    notes = []
    f: Function
    if "function" in body:
        name = one_of("function", body["function"], tuple(FUNCTIONS))
        f, formula = FUNCTIONS[name], formula_of(name)
    else:
        formula = parse(_text(body, "formula"))
        name, f = formula.text, _timed(formula)
        found = formula.constants(design.tokens)
        known = {"lipschitz": found.lipschitz, "curvature": found.curvature}
        constants = {argument: value for argument, value in known.items() if value is not None}
        notes.append(_said(constants))
    options: dict[str, Any] = {"method": method, "budget": NETWORK_PARAMETERS, **constants}
    try:
        result = approximate(f, design, features=1, tol=tol, **options)
    except (AnyseqError, OutOfTime):
        if remaining() < 0:  # f said so, too, but what f raises comes as an error of f
            raise TookTooLong(
                f"no network within {NETWORK_SECONDS:g} seconds: ask for a larger tol, fewer "
                "tokens or a shorter formula"
            ) from None
        raise
    title = f"{name} ({design_text(design)}, tol {tol:g})"
    return {"network": described(result, title, formula), "notes": notes}


def _timed(f: Function) -> Function:
    """f, which raises once the time is used up."""

    def timed(x: torch.Tensor) -> torch.Tensor:
        check_time()
        return f(x)

    return timed


def _said(constants: Mapping[str, float]) -> str:
    if not constants:
        return (
            "unproved: constant estimated. No bound was found for how this formula varies: it may "
            "divide by 0, or take the root or the logarithm of 0"
        )
    words = {"lipschitz": "Lipschitz constant", "curvature": "curvature"}
    given = " and ".join(f"{words[name]} at most {value:.4g}" for name, value in constants.items())
    return f"Proved of the formula by intervals: {given}."


# ---- arguments ----


def _design(body: Body, most_tokens: int) -> Design:
    tokens = body.get("tokens")
    if type(tokens) is not int or not 1 <= tokens <= most_tokens:
        raise InvalidArgument(f"tokens={tokens!r}: expected a whole number from 1 to {most_tokens}")
    bos = body.get("bos", False)
    if type(bos) is not bool:
        raise InvalidArgument(f"bos={bos!r}: expected true or false")
    depth = body.get("depth")
    if depth is not None and (type(depth) is not int or not 1 <= depth <= MOST_LAYERS):
        raise InvalidArgument(f"depth={depth!r}: expected null or 1 to {MOST_LAYERS}")
    return Design(
        tokens,
        _patterns(body, tokens + bos),
        position=parse_position(_text(body, "position", "absolute")),
        prob_map=_text(body, "prob_map", "softmax"),
        bos=bos,
        depth=depth,
    )


def _patterns(body: Body, size: int) -> tuple[Pattern, ...]:
    if "mask" in body and "pattern" in body:
        raise InvalidArgument("mask and pattern: expected one of the two")
    if "mask" in body:
        given = body["mask"]
        several = _is_list(given) and _is_list(given[0]) and _is_list(given[0][0])
        return tuple(_mask(one, size) for one in (given if several else [given]))
    given = body.get("pattern", "full")
    texts = given if isinstance(given, list) else [given]
    if not 1 <= len(texts) <= MOST_LAYERS:
        raise InvalidArgument(f"pattern: {len(texts)} of them; expected 1 to {MOST_LAYERS}")
    return tuple(parse_pattern(_text({"pattern": text}, "pattern")) for text in texts)


def _is_list(value: object) -> bool:
    return isinstance(value, list) and bool(value)


def _mask(rows: object, size: int) -> FromMask:
    right = isinstance(rows, list) and len(rows) == size
    if right:
        assert isinstance(rows, list)
        right = all(isinstance(row, list) and len(row) == size for row in rows)
        right = right and all(entry in (0, 1) for row in rows for entry in row)
    if not right:
        raise InvalidArgument(f"mask: expected {size} rows of {size} entries, each 0 or 1")
    return FromMask(torch.tensor(rows, dtype=torch.bool))


def _text(body: Body, name: str, otherwise: str | None = None) -> str:
    value = body.get(name, otherwise)
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise InvalidArgument(f"{name}: expected text of up to {LONGEST_TEXT} characters")
    return value


def _known(body: Body, names: set[str]) -> None:
    others = sorted(set(body) - names)
    if others:
        raise InvalidArgument(f"{others[0][:40]!r}: expected {', '.join(sorted(names))}")
