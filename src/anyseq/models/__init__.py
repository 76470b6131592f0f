"""Existing models, read as Designs: what they declare, and what is seen when they are run."""

from anyseq.models.as_design import BORROWS, READS_THE_ENCODER
from anyseq.models.context import LONGEST
from anyseq.models.convert import convert
from anyseq.models.facts import NO_BOS
from anyseq.models.faults import Audit, Check, Fault, audit
from anyseq.models.fitting import features_of
from anyseq.models.function import Function, after_bos
from anyseq.models.probes import Probe, probe
from anyseq.models.read import read
from anyseq.models.reading import Fact, Reading
from anyseq.models.running import as_function, is_hugging_face

__all__ = [
    "BORROWS",
    "LONGEST",
    "NO_BOS",
    "READS_THE_ENCODER",
    "Audit",
    "Check",
    "Fact",
    "Fault",
    "Function",
    "Probe",
    "Reading",
    "after_bos",
    "as_function",
    "audit",
    "convert",
    "features_of",
    "is_hugging_face",
    "probe",
    "read",
]
