"""Audits: a model as it is declared against the model as it is seen when it is run."""

from anyseq.models.faults.audit import audit
from anyseq.models.faults.fault import Audit, Check, Fault

__all__ = ["Audit", "Check", "Fault", "audit"]
