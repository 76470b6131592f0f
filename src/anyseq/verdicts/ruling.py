"""The result of a rule: a finding, and perhaps the answer."""

from __future__ import annotations

from dataclasses import dataclass

from anyseq.verdicts.certificate import Certificate
from anyseq.verdicts.verdict import Finding
from anyseq.verdicts.witness import Witness


@dataclass(frozen=True, eq=False)
class Ruling:
    """finding: what was seen. A witness refutes, a certificate proves; without either the finding
    is for information, or, if it is unknown, the reason why there may be no answer."""

    finding: Finding
    witness: Witness | None = None
    certificate: Certificate | None = None
