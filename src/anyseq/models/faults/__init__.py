"""Audits: what a model declares, compared with what it does when it is run."""

from anyseq.models.faults.audit import audit
from anyseq.models.faults.fault import Audit, Check, Fault

__all__ = ["Audit", "Check", "Fault", "audit"]
