"""anyseq: statements about what Transformers can express, as things you can run.

import anyseq as aq

design = aq.Design(tokens=3)
result = aq.approximate(f, design, features=1, tol=0.1, lipschitz=1.0)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyseq import errors, hf, nn, patterns, positions
    from anyseq.construct import FUNCTIONS as functions
    from anyseq.construct import (
        Approximation,
        ErrorReport,
        Local,
        Plan,
        Term,
        approximate,
        load,
        plan,
    )
    from anyseq.design import (
        Average,
        Bilinear,
        Convolution,
        Design,
        Layer,
        LinearAttention,
        Recurrence,
    )
    from anyseq.models import Audit, Fact, Fault, Reading, audit, convert, read
    from anyseq.ops import (
        AttentionPlan,
        attention,
        attention_plan,
        scaled_dot_product_attention,
    )
    from anyseq.patterns import (
        BigBird,
        Blocks,
        Causal,
        Dilated,
        Documents,
        Fixed,
        FromMask,
        Full,
        Global,
        LogSparse,
        Longformer,
        Neighbourhood,
        Pattern,
        PerHead,
        Random,
        ShiftedWindows,
        Star,
        Strided,
        Window,
    )
    from anyseq.pictures import animate, show
    from anyseq.positions import (
        URPE,
        Absolute,
        ALiBi,
        GridBias,
        GridToeplitz,
        NoPosition,
        Position,
        RelativeBias,
        Rotary,
        Shaw,
        Sinusoidal,
        T5Bias,
        Toeplitz,
    )
    from anyseq.probability import Entmax15, Hardmax, ProbMap, Softmax, Sparsemax, TopK
    from anyseq.verdicts import (
        Certificate,
        Comparison,
        Finding,
        Fix,
        Task,
        Verdict,
        Witness,
        check,
        compare,
    )

__version__ = "0.1.0"

__all__ = [
    "URPE",
    "ALiBi",
    "Absolute",
    "Approximation",
    "AttentionPlan",
    "Audit",
    "Average",
    "BigBird",
    "Bilinear",
    "Blocks",
    "Causal",
    "Certificate",
    "Comparison",
    "Convolution",
    "Design",
    "Dilated",
    "Documents",
    "Entmax15",
    "ErrorReport",
    "Fact",
    "Fault",
    "Finding",
    "Fix",
    "Fixed",
    "FromMask",
    "Full",
    "Global",
    "GridBias",
    "GridToeplitz",
    "Hardmax",
    "Layer",
    "LinearAttention",
    "Local",
    "LogSparse",
    "Longformer",
    "Neighbourhood",
    "NoPosition",
    "Pattern",
    "PerHead",
    "Plan",
    "Position",
    "ProbMap",
    "Random",
    "Reading",
    "Recurrence",
    "RelativeBias",
    "Rotary",
    "Shaw",
    "ShiftedWindows",
    "Sinusoidal",
    "Softmax",
    "Sparsemax",
    "Star",
    "Strided",
    "T5Bias",
    "Task",
    "Term",
    "Toeplitz",
    "TopK",
    "Verdict",
    "Window",
    "Witness",
    "animate",
    "approximate",
    "attention",
    "attention_plan",
    "audit",
    "check",
    "compare",
    "convert",
    "errors",
    "functions",
    "hf",
    "load",
    "nn",
    "patterns",
    "plan",
    "positions",
    "read",
    "scaled_dot_product_attention",
    "show",
]


def __dir__() -> list[str]:
    return sorted(__all__)


# Everything is loaded when first used, torch too: the command line answers --help at once.
_FOLDERS = ("errors", "hf", "nn", "patterns", "positions")
_PLACES = {
    name: module
    for module, names in {
        "anyseq.construct": "Approximation ErrorReport FUNCTIONS Local Plan Term approximate load "
        "plan",
        "anyseq.design": "Average Bilinear Convolution Design Layer LinearAttention Recurrence",
        "anyseq.models": "Audit Fact Fault Reading audit convert read",
        "anyseq.ops": "AttentionPlan attention attention_plan scaled_dot_product_attention",
        "anyseq.patterns": "BigBird Blocks Causal Dilated Documents Fixed FromMask Full Global "
        "LogSparse Longformer Neighbourhood Pattern PerHead Random ShiftedWindows Star Strided "
        "Window",
        "anyseq.pictures": "animate show",
        "anyseq.positions": "ALiBi Absolute GridBias GridToeplitz NoPosition Position "
        "RelativeBias Rotary Shaw Sinusoidal T5Bias Toeplitz URPE",
        "anyseq.probability": "Entmax15 Hardmax ProbMap Softmax Sparsemax TopK",
        "anyseq.verdicts": "Certificate Comparison Finding Fix Task Verdict Witness check compare",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    if name in _FOLDERS:
        return import_module(f"anyseq.{name}")
    name = {"functions": "FUNCTIONS"}.get(name, name)
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'anyseq' has no attribute {name!r}")
