"""The facts of a result, compared with what its certificate claims."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch

from anyseq.construct.claims.claim import Claim
from anyseq.construct.network.built import Built
from anyseq.construct.request.error import LP, MEAN, SUP, ErrorReport, proved_status
from anyseq.construct.request.kind import ASSUMES, kind_of_function
from anyseq.construct.request.local import Local
from anyseq.construct.request.needs import plain_attention
from anyseq.construct.request.smooth import Smoothness
from anyseq.positions import NoPosition
from anyseq.verify import Check


def same_report(claim: Claim, result: Built) -> Check:
    """Every number in `result` is the claim's, or follows from it; what was measured on f, which is
    no longer available, is at least possible."""
    for wrong in _differences(claim, result):
        return Check("report", False, wrong)
    return Check("report", True, "result.error is what the certificate claims")


def _differences(claim: Claim, result: Built) -> Iterator[str]:
    error, shape, facts = result.error, result.size, result.facts
    told = {
        "method": facts.method,
        "tokens": shape.tokens,
        "features": shape.in_features,
        "out_features": shape.out_features,
        "steps": facts.step and 1 / facts.step,
        "positions": not isinstance(result.design.position, NoPosition),
        "dense": plain_attention(result.design),
        "kind": kind_of_function(result.design, error.norm),
        "norm": error.norm,
        "p": error.p,
        "terms": tuple((term.name, term.on, term.value) for term in error.terms),
        "upper": error.upper,
        "exceptional": error.exceptional,
    }
    for name, value in told.items():
        if getattr(claim, name) != value:
            yield f"result says {name} = {value!r}, the certificate {getattr(claim, name)!r}"
    if facts.cells != (known := len(result.fused.tensors().get("values", ()))):
        yield f"result says cells = {facts.cells}, the table has values for {known}"
    if not claim.upper <= facts.tol:
        yield f"result says tol = {facts.tol:.6g}, and {claim.upper:.6g} is proved"
    if facts.status != proved_status(error.terms):
        yield f"result says status = {facts.status!r}, its terms {proved_status(error.terms)!r}"
    if (said := tuple(error.assumes)) != (assumed := assumptions(claim, result)):
        yield f"result assumes {said}, the certificate {assumed}"
    yield from _impossible(claim, error)


def _impossible(claim: Claim, error: ErrorReport) -> Iterator[str]:
    """What cannot have been measured. In sup norm the error measured is that of the worst input;
    otherwise it is a limit at some level of confidence."""
    if not 0 <= error.lower <= claim.upper:
        yield f"result measured an error of {error.lower:.6g}, and {claim.upper:.6g} is proved"
    most = 2 * claim.bound * (1 + 2.0**-40) + claim.upper  # |f| and |T|, where the look-up speaks
    if not 0 <= error.at_error <= most:
        yield f"result says that its worst input is off by {error.at_error:.6g}, beyond all values"
    inside = (error.at >= 0) & (error.at <= 1)
    if error.at.shape != (claim.tokens, claim.features) or not bool(inside.all()):
        yield "result says that its worst input is outside the cube"
    if claim.norm == SUP and (error.lower != min(error.at_error, claim.upper) or error.level):
        yield (
            f"result measured an error of {error.lower:.6g}, and {error.at_error:.6g} at its worst "
            "input"
        )
    if claim.norm in (LP, MEAN) and not (error.level and 0 < error.level < 1):
        yield f"result measured an error of {error.lower:.6g} at a level of {error.level}"


def assumptions(claim: Claim, result: Built) -> tuple[str, ...]:
    """What is assumed of f, from the constants of the claim; `error` says which were given per box,
    and must where boxes have smaller ones."""
    said = " ".join(result.error.assumes[:1])
    whole = Smoothness(
        lipschitz=math.inf if claim.lipschitz is None else claim.lipschitz,
        per_feature=claim.per_feature,
        modulus=None if claim.modulus is None else lambda distance: distance,
        curvature=math.inf if claim.curvature is None else claim.curvature,
    )
    boxes = result.fused.tensors().get("constants", torch.empty(0, 2))
    steep, bent = (boxes < torch.tensor([whole.lipschitz, whole.curvature])).any(0).tolist()
    told = Local(lambda lower, upper: lower.flatten(1).amax(1))  # by some function
    texts = [
        f"f is {replace(whole, local_lipschitz=one, local_curvature=other)} (given)"
        for one in ([told] if steep else [None, told])
        for other in ([told] if bent else [None, told])
    ]
    first = said if said in texts else texts[0]
    return (first, *([ASSUMES[claim.kind]] if claim.kind in ASSUMES else []))
