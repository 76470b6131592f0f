"""Results with something changed, every hash made to fit, and what the second opinion says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from anyseq.construct import Approximation
from anyseq.construct.claims.claim import Claim
from anyseq.construct.claims.facts import facts_of
from anyseq.construct.claims.report import assumptions
from anyseq.construct.request.error import Term, combine
from anyseq.construct.request.kind import kind_of_function
from anyseq.construct.request.needs import plain_attention
from anyseq.construct.results.certificate import Certificate
from anyseq.construct.tables.fused import fused_from
from anyseq.design import Design
from anyseq.nn import Stack, StackShape
from anyseq.positions import NoPosition
from anyseq.verify import Facts, Verification, verify


def claim_of(result: Approximation) -> Claim:
    assert result.certificate is not None
    return result.certificate.claim


def network_with(
    result: Approximation,
    weights: dict[str, torch.Tensor],
    design: Design | None = None,
    shape: StackShape | None = None,
) -> Stack:
    tensors = result.model.state_dict() | weights
    return type(result.model)(design or result.design, shape or result.size, tensors)


_CHANGES: list[Callable[[float], float]] = [
    lambda v: -v, lambda v: 0.0, lambda v: v + 1, lambda v: v - 1, lambda v: v * 2,
    lambda v: v * (1 + 1e-6), lambda v: v + 0.5, lambda v: v - 0.25, lambda v: v + 1e-6,
]  # fmt: skip


def facts_about(result: Approximation) -> Facts:
    """The facts of its claim."""
    return facts_of(claim_of(result), result.model, result.fused)


def wrong_number(result: Approximation, data: st.DataObject) -> dict[str, torch.Tensor]:
    """A tensor of its network with one entry changed, any or one that is not 0."""
    tensors = result.model.state_dict()
    name = data.draw(st.sampled_from(sorted(tensors.keys() - {"halves"})))
    wrong = tensors[name].clone()
    flat = wrong.view(-1)
    used = flat.nonzero().flatten().tolist()
    anywhere = st.integers(0, len(flat) - 1)
    entry = data.draw(st.one_of(st.sampled_from(used), anywhere) if used else anywhere)
    flat[entry] = data.draw(st.sampled_from(_CHANGES))(float(flat[entry]))
    return {name: wrong}


def is_felt(result: Approximation, weights: dict[str, torch.Tensor], x: torch.Tensor) -> bool:
    """Whether the network computes something else at some x."""
    with torch.no_grad():
        other = network_with(result, weights)
        return not float((other(x) - result.model(x)).abs().max()) <= 1e-7


def look_again(result: Approximation, **changed: Any) -> Verification:
    """What reading says of other weights, another claim, or a table and an order that need not be
    those of any look-up; so there is no look at that."""
    network = network_with(result, changed.get("weights", {}))
    facts = facts_of(changed.get("claim", claim_of(result)), network, result.fused)
    found = verify(
        replace(facts, starts=changed.get("order", facts.starts)),
        network=network,
        table=result.fused.tensors() | changed.get("table", {}),
        look_up=result.fused,
    )
    return Verification(tuple(check for check in found.checks if check.name != "look-up"))


def forge(
    result: Approximation,
    *,
    claim: Claim | None = None,
    design: Design | None = None,
    shape: StackShape | None = None,
    weights: dict[str, torch.Tensor] | None = None,
    look_up: dict[str, Any] | None = None,
) -> Verification:
    """What the certificate of the result says with another claim, which its error says too, for
    another design, with other weights, or with other facts and tensors of its look-up."""
    claim, design, shape = claim or claim_of(result), design or result.design, shape or result.size
    terms = [Term(name, value, on, "") for name, on, value in claim.terms]
    error = replace(
        result.error,
        norm=claim.norm,
        p=claim.p,
        terms=tuple(terms),
        upper=claim.upper,
        exceptional=claim.exceptional,
    )
    model = network_with(result, weights or {}, design, shape)
    fused = result.fused.facts() | result.fused.tensors() | (look_up or {})
    other = replace(
        result,
        facts=replace(result.facts, design=design, shape=shape),
        error=error,
        fused=fused_from(fused, {}),
        _make_model=lambda: model,
        _model=model,
        _fingerprint=model.fingerprint(),
        _certificate=None,
    )
    held = Certificate.of(claim, other)
    other.error = replace(error, assumes=assumptions(claim, other))
    return held.verify()


def as_of(design: Design, claim: Claim) -> Claim:
    """The claim, as it would be of a network of another design."""
    return replace(
        claim,
        positions=not isinstance(design.position, NoPosition),
        dense=plain_attention(design),
        kind=kind_of_function(design, claim.norm),
    )


def with_terms(claim: Claim, **factors: float) -> Claim:
    """The claim with some terms multiplied, those by 0 left out, and `upper` made to fit."""
    terms = [
        Term(name, value * factors.get(name, 1.0), on, "")
        for name, on, value in claim.terms
        if factors.get(name, 1.0)
    ]
    return replace(
        claim,
        terms=tuple((term.name, term.on, term.value) for term in terms),
        upper=combine(terms, claim.norm, claim.p),
    )


def failed(verification: Verification) -> dict[str, str]:
    """The checks that fail, and why."""
    return {check.name: check.why for check in verification.checks if check.passed is False}


def texts(verification: Verification) -> dict[str, str]:
    return {check.name: check.why for check in verification.checks}


def wrong_claims(claim: Claim, method: str) -> list[Claim]:
    """Claims of two terms that are false in one thing or another, or of another method."""
    assert claim.lipschitz is not None
    cells, rounding = claim.terms
    less = tuple((what, on, value * 0.99) for what, on, value in claim.terms)
    tenth = (rounding[0], rounding[1], rounding[2] / 10)
    return [
        replace(claim, upper=claim.upper * 0.99),
        replace(claim, terms=less, upper=claim.upper * 0.99),
        replace(claim, terms=(cells, tenth), upper=cells[2] + tenth[2]),
        replace(claim, terms=(cells,), upper=cells[2]),
        replace(claim, lipschitz=claim.lipschitz * 1.01),
        replace(claim, lipschitz=None),
        replace(claim, per_feature=(2 * claim.lipschitz,)),
        replace(claim, bound=claim.bound / 100),
        replace(claim, steps=claim.steps * 2),
        replace(claim, tokens=claim.tokens + 1),
        replace(claim, method=method),
    ]
