"""A second opinion on a constructed network, from its tensors and the claim alone.

This file, verify_terms.py, verify_kuhn.py, verify_cells.py and verify_balls.py share no code with
the methods: they read the weights, show what function those compute, derive the error of that
function again and compare it with the claim.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from anyseq.construct.claim import Claim
from anyseq.construct.verify_balls import balls_agree
from anyseq.construct.verify_cells import cells_network
from anyseq.construct.verify_kuhn import kuhn_network
from anyseq.construct.verify_terms import Disagreement, Skipped, terms_hold

Tensors = Mapping[str, torch.Tensor]

_NETWORKS: dict[str, Callable[[Claim, Tensors, Tensors], tuple[str, dict[str, float]]]] = {
    "gather": kuhn_network,
    "yun": cells_network,
}


_TENSORS = {
    *("q_weight", "q_bias", "k_weight", "v_weight", "o_weight"),
    *("up_weight", "up_bias", "down_weight", "down_bias", "position", "halves"),
}


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. passed: None if it was skipped; `why` says why."""

    name: str
    passed: bool | None
    why: str


@dataclass(frozen=True)
class Verification:
    """True if everything that was looked at holds. Print it to see what was, and what not."""

    checks: tuple[Check, ...]

    def __bool__(self) -> bool:
        return all(check.passed is not False for check in self.checks)

    def __str__(self) -> str:
        words = {True: "holds", False: "FAILS", None: "skipped"}
        width = max(len(check.name) for check in self.checks)
        return "\n".join(
            f"{check.name.ljust(width)}  {words[check.passed]}: {check.why}"
            for check in self.checks
        )

    __repr__ = __str__


def digest(tensors: Tensors) -> str:
    """The SHA-256 of tensors with their names, types and shapes."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        found.update(tensor.view(torch.uint8).numpy().data)
    return found.hexdigest()


def verify(
    claim: Claim, *, weights: Tensors, table: Tensors, weights_sha256: str, table_sha256: str
) -> Verification:
    """Look at the tensors, the network, its error, and at some inputs in ball arithmetic."""
    checks = [
        _check("weights", lambda: _same(digest(weights), weights_sha256)),
        _check("table", lambda: _same(digest(table), table_sha256)),
    ]
    measured: dict[str, float] = {}
    network = _NETWORKS.get(claim.method)
    if network is None:
        why = f'there is no second opinion on method "{claim.method}"'
        return Verification((*checks, Check("network", False, why)))

    def look() -> str:
        unknown = weights.keys() - _TENSORS
        if unknown or not claim.dense:
            names = ", ".join(sorted(unknown)) or "other attention"
            raise Disagreement(f"only dense softmax attention can be read, not {names}")
        text, found = network(claim, weights, table)
        measured.update(found)
        return text

    checks.append(_check("network", look))
    if checks[-1].passed:
        checks.append(_check("error", lambda: terms_hold(claim, table, measured)))
        checks.append(_check("balls", lambda: balls_agree(claim, weights, table, measured)))
    return Verification(tuple(checks))


def _check(name: str, look: Callable[[], str]) -> Check:
    """A look returns what it saw, or raises Disagreement or Skipped."""
    try:
        return Check(name, True, look())
    except Disagreement as problem:
        return Check(name, False, str(problem))
    except Skipped as reason:
        return Check(name, None, str(reason))
    except (LookupError, ValueError, ArithmeticError) as problem:
        why = f"tensors and claim do not fit together: {type(problem).__name__}: {problem}"
        return Check(name, False, why)


def _same(found: str, recorded: str) -> str:
    if found != recorded:
        raise Disagreement(f"SHA-256 {found[:12]}..., the certificate speaks of {recorded[:12]}...")
    return f"SHA-256 {found[:12]}..."
