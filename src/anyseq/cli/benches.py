"""The benches by name: what measures, and what writes the figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anyseq.base import Progress
from anyseq.bench import (
    bench_adaptive,
    bench_attention,
    bench_check,
    bench_construct,
    bench_everyday,
    bench_fit,
    bench_hf,
    bench_methods,
    bench_training,
)
from anyseq.cli.bench_everyday_text import everyday_text
from anyseq.cli.bench_hf_text import hf_text
from anyseq.cli.bench_methods_text import methods_text
from anyseq.cli.bench_text import (
    adaptive_text,
    attention_text,
    check_text,
    construct_text,
    fit_text,
)
from anyseq.cli.bench_training_text import training_text

_Figures = dict[str, Any]
BENCHES: Mapping[str, tuple[Callable[[Progress], _Figures], Callable[[_Figures], str]]] = {
    "construct": (bench_construct, construct_text),
    "attention": (bench_attention, attention_text),
    "check": (bench_check, check_text),
    "methods": (bench_methods, methods_text),
    "adaptive": (bench_adaptive, adaptive_text),
    "fit": (bench_fit, fit_text),
    "training": (bench_training, training_text),
    "hf": (bench_hf, hf_text),
    "everyday": (bench_everyday, everyday_text),
}
