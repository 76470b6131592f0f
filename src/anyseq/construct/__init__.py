"""Function -> weights."""

from anyseq.construct.approximate import approximate
from anyseq.construct.error import ErrorReport, Term
from anyseq.construct.functions import FUNCTIONS, Example
from anyseq.construct.local import Local
from anyseq.construct.plan import Plan, plan
from anyseq.construct.result import Approximation
from anyseq.construct.store import load

__all__ = [
    "FUNCTIONS",
    "Approximation",
    "ErrorReport",
    "Example",
    "Local",
    "Plan",
    "Term",
    "approximate",
    "load",
    "plan",
]
