"""Can this design express every function? Rules, witnesses, certificates."""

from anyseq.verdicts.certificate import Certificate
from anyseq.verdicts.check import NoLength, check
from anyseq.verdicts.compare import Card, Comparison, compare
from anyseq.verdicts.costs import Costs
from anyseq.verdicts.describe import describe, describe_around
from anyseq.verdicts.tasks import Task
from anyseq.verdicts.verdict import NORMS, SECONDS, TARGETS, Finding, Fix, Verdict
from anyseq.verdicts.witness import Witness

__all__ = [
    "NORMS",
    "SECONDS",
    "TARGETS",
    "Card",
    "Certificate",
    "Comparison",
    "Costs",
    "Finding",
    "Fix",
    "NoLength",
    "Task",
    "Verdict",
    "Witness",
    "check",
    "compare",
    "describe",
    "describe_around",
]
