"""A proven error bound that can be checked again, in another process and by other code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from anyseq.base import json_sha256
from anyseq.construct.claims.claim import Claim
from anyseq.construct.claims.facts import facts_of
from anyseq.construct.claims.report import same_report
from anyseq.construct.network.built import Built
from anyseq.verify import Check, Verification, digest, verify


@dataclass(frozen=True)
class Certificate:
    """The claim about one network, bound by SHA-256 to its tensors and to what else decides what
    the result computes and says: the design, the form of the look-up, the exceptional set."""

    claim: Claim
    weights_sha256: str
    table_sha256: str
    facts_sha256: str
    result: Built

    @classmethod
    def of(cls, claim: Claim, result: Built) -> Certificate:
        """The certificate of a result as it is now."""
        weights, table = digest(result.model.state_dict()), digest(result.fused.tensors())
        return cls(claim, weights, table, json_sha256(_facts(result)), result)

    @classmethod
    def from_dict(cls, facts: dict[str, Any], result: Built) -> Certificate:
        """The one that `to_dict` described; `verify` says whether it belongs to the result."""
        return cls(
            claim=Claim.from_dict(facts["claim"]),
            weights_sha256=str(facts["weights_sha256"]),
            table_sha256=str(facts["table_sha256"]),
            facts_sha256=str(facts["facts_sha256"]),
            result=result,
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "claim": self.claim.to_dict(),
            "weights_sha256": self.weights_sha256,
            "table_sha256": self.table_sha256,
            "facts_sha256": self.facts_sha256,
        }

    def verify(self) -> Verification:
        """Check it again: that the tensors and facts are the ones certified, that the network
        computes what the table says, that the error of that is what `error.upper` says, and, with
        python-flint, some inputs in ball arithmetic. What is read from the weights is read by code
        that shares nothing with the methods; what is run is compared with the table, or with the
        look-up that `result(x)` uses. Print it to see what is proved, what was sampled and what
        skipped: that depends on the method, and on what the design puts inside attention.

        What a file claims is first compared with what its tensors are; the work then grows with
        the square of their size at most."""
        network, look_up = self.result.model, self.result.fused
        facts = facts_of(self.claim, network, look_up)
        checked = verify(facts, network=network, table=look_up.tensors(), look_up=look_up)
        return Verification(
            (same_report(self.claim, self.result), *self._same_hashes(), *checked.checks)
        )

    def _same_hashes(self) -> Iterator[Check]:
        """Tensors and facts are those that were certified; the table holds numbers."""
        now, table = Certificate.of(self.claim, self.result).to_dict(), self.result.fused.tensors()
        for name, tensor in table.items():
            if name != "constants" and not bool(tensor.isfinite().all()):  # those of boxes may be
                yield Check("table", False, f"{name}: a number is infinite, or not a number")
        for name in ("weights", "table", "facts"):
            found, recorded = now[f"{name}_sha256"], getattr(self, f"{name}_sha256")
            why = f"SHA-256 {found[:12]}..."
            if found != recorded:
                why += f", the certificate is about {recorded[:12]}..."
            yield Check(name, found == recorded, why)


def _facts(result: Built) -> dict[str, Any]:
    """What a certificate is bound to besides tensors."""
    return {
        "fused": result.fused.facts(),
        "design": result.design.to_dict(),
        "exceptional": result.error.exceptional,
    }
