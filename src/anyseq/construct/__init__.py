"""Function -> weights."""

from anyseq.construct.request.error import ErrorReport, Term
from anyseq.construct.request.functions import FUNCTIONS, Example
from anyseq.construct.request.local import Local
from anyseq.construct.results.load import load
from anyseq.construct.results.result import Approximation
from anyseq.construct.verbs.approximate import approximate
from anyseq.construct.verbs.plan import Plan, plan

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
