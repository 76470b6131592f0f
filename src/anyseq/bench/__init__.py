"""Measurements. Ratios are taken in one run, alternating, with the median."""

from anyseq.bench.adaptive import bench_adaptive
from anyseq.bench.attention import bench_attention
from anyseq.bench.check import bench_check
from anyseq.bench.construct import bench_construct
from anyseq.bench.everyday import bench_everyday
from anyseq.bench.fit import bench_fit
from anyseq.bench.hf import bench_hf
from anyseq.bench.methods import bench_methods
from anyseq.bench.training import bench_training

__all__ = [
    "bench_adaptive",
    "bench_attention",
    "bench_check",
    "bench_construct",
    "bench_everyday",
    "bench_fit",
    "bench_hf",
    "bench_methods",
    "bench_training",
]
