"""What the second opinion says of a result with other tensors or another claim."""

from __future__ import annotations

from typing import Any

import torch

from anyseq.base import json_sha256
from anyseq.construct import Approximation
from anyseq.construct.verification import Verification, digest
from anyseq.construct.verify import verify


def look_again(result: Approximation, **changed: Any) -> Verification:
    """Hashes are made to fit, and there is no look at the look-up."""
    assert result.certificate is not None
    weights = result.model.state_dict() | changed.get("weights", {})
    table = result.fused.tensors() | changed.get("table", {})
    found = verify(
        changed.get("claim", result.certificate.claim),
        network=type(result.model)(result.design, result.size, weights),
        table=table,
        look_up=result.fused,
        facts={},
        order=changed.get("order", getattr(result.fused, "offsets", None)),
        weights_sha256=digest(weights),
        table_sha256=digest(table),
        facts_sha256=json_sha256({}),
    )
    return Verification(tuple(check for check in found.checks if check.name != "look-up"))


def texts(verification: Verification) -> dict[str, str]:
    return {check.name: check.why for check in verification.checks}


def failed(verification: Verification) -> set[str]:
    return {check.name for check in verification.checks if check.passed is False}


def is_felt(result: Approximation, weights: dict[str, torch.Tensor], x: torch.Tensor) -> bool:
    """Whether the network computes something else at some x."""
    with torch.no_grad():
        other = type(result.model)(result.design, result.size, result.model.state_dict() | weights)
        return not float((other(x) - result.model(x)).abs().max()) <= 1e-7
