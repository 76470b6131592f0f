"""Can this design express every function? Rules, witnesses, certificates."""

from anyseq.verdicts.certificate import Certificate
from anyseq.verdicts.check import check
from anyseq.verdicts.verdict import ANSWERS, NORMS, TARGETS, Finding, Fix, Verdict
from anyseq.verdicts.witness import Witness

__all__ = [
    "ANSWERS",
    "NORMS",
    "TARGETS",
    "Certificate",
    "Finding",
    "Fix",
    "Verdict",
    "Witness",
    "check",
]
