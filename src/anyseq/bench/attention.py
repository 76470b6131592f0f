"""`anyseq bench attention`: patterns and positions beside torch and the peers, in one run.

Float32, heads of size 64; batch 1 and 4 heads, and everyday shapes (`shapes`). Times are medians
of alternating rounds. The useful rate counts the operations of allowed pairs only: 4·64 a pair
forward, 3.5 times that with backward; for dense attention, with which it is compared, of all pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isqrt
from statistics import median
from time import process_time
from typing import Any

import torch

from anyseq.base import Progress, medians, silent
from anyseq.bench import contestants as c
from anyseq.bench.peak import peak
from anyseq.bench.shapes import SHAPES, Shape, decoding, everyday
from anyseq.patterns import BigBird, Fixed, Longformer, Pattern, Star, Strided, Window

_PARTS = ("forward", "growth", "urpe", "short", "shapes", "decoding")
_ROUNDS = 5
_SHORT_ROUNDS = 60
_CPU_ROUNDS = 3
_CHECKED = 1024  # tokens for the comparison with the formula, which is dense
_WORK = 4 * c.SIZE * 3.5  # operations a pair, forward and backward


def bench_attention(
    progress: Progress = silent,
    *,
    tokens: int = 8192,
    longest: int = 131_072,
    shapes: Sequence[Shape] = SHAPES,
    beside: int = 2,
) -> dict[str, Any]:
    """All figures. tokens: the length of the comparisons; longest: of the last memory figure;
    beside: busy processes that the everyday shapes are measured beside, too."""
    root = isqrt(tokens) + (isqrt(tokens) ** 2 < tokens)
    window, big_bird = Window(128), BigBird(64, globals=2)
    patterns: list[Pattern] = [
        window, Star(128), Longformer(128), Strided(root), Fixed(root), big_bird,
    ]  # fmt: skip
    stages: list[tuple[str, Callable[[], Any]]] = [
        ("peak", _matmul_peak),
        *((f"{pattern}", partial(_training, pattern, tokens)) for pattern in patterns),
        ("growth", lambda: [_growth(p, tokens, longest) for p in (window, Star(128), big_bird)]),
        ("urpe", lambda: _urpe(tokens // 2)),
        ("short", _all_short),
        ("shapes", lambda: [row for shape in shapes for row in everyday(shape, beside)]),
        ("decoding", decoding),
        ("forward", lambda: _forward(window, tokens)),
    ]
    found: dict[str, Any] = {}
    for done, (name, stage) in enumerate(stages):
        progress("bench attention", done, len(stages))
        found[name] = stage()
    progress("bench attention", len(stages), len(stages))
    training = [row for pattern in patterns for row in found[f"{pattern}"]]
    for row in training:
        row["of_peak"] = 1e9 * row["useful_gflops"] / found["peak"]
    return {
        "tokens": tokens,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "matmul_peak_gflops": found["peak"] / 1e9,
        "training": training,
        **{name: found[name] for name in _PARTS},
    }


def _matmul_peak() -> float:
    """Operations a second of the fastest batched product on this machine."""
    a, b = torch.randn(16, 256, 256), torch.randn(16, 256, 256)
    out = torch.empty(16, 256, 256)
    taken = medians({"bmm": lambda: torch.bmm(a, b, out=out)}, rounds=30)["bmm"]
    return 2 * 16 * 256**3 / taken


def _training(pattern: Pattern, n: int) -> list[dict[str, Any]]:
    """Forward and backward of all contestants that support the pattern."""
    builds: dict[str, c.Build] = {
        "anyseq": partial(c.anyseq_operator, pattern, "auto"),
        "SDPA, bool mask": partial(c.masked_sdpa, pattern),
    }
    absent = []
    match pattern:
        case Window(radius=radius):
            builds["local-attention"] = partial(c.local_attention, radius)
            builds["anyseq layer"] = partial(c.anyseq_layer, pattern)
            builds["HF Longformer layer"] = partial(c.hf_longformer_layer, radius)
        case BigBird(block, _, _, random):
            builds["anyseq layer"] = partial(c.anyseq_layer, pattern)
            builds["HF BigBird layer"] = partial(c.hf_big_bird_layer, block, random)
    for name, package in (("local-attention", "local_attention"), ("HF", "transformers")):
        if c.missing(package):
            absent += [peer for peer in builds if peer.startswith(name)]
    for peer in absent:
        del builds[peer]
    matches = {name: build(_CHECKED).matches() for name, build in builds.items()}
    works = {name: build(n).train for name, build in builds.items()}
    dense = c.dense_sdpa(n).train
    times = medians(works | {"dense": dense}, rounds=_ROUNDS)
    dense_rate = c.HEADS * n**2 * _WORK / times.pop("dense")
    pairs = c.HEADS * pattern.edges(n).shape[1]
    on_one = _on_one_thread({"anyseq": works["anyseq"], "dense": dense})
    share = pairs / (c.HEADS * n**2)
    return [
        {
            "pattern": repr(pattern),
            "contestant": name,
            "seconds": taken,
            "slower": taken / times["anyseq layer" if name.endswith("layer") else "anyseq"],
            "useful_gflops": pairs * _WORK / taken / 1e9,
            "of_dense_rate": pairs * _WORK / taken / dense_rate,
            "of_dense_rate_cpu": share * on_one["dense"] / on_one["anyseq"]
            if name == "anyseq"
            else None,
            "matches": matches[name],
        }
        for name, taken in times.items()
    ]


def _on_one_thread(works: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Medians of the processor time, which is what the arithmetic costs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return medians(works, rounds=_CPU_ROUNDS, clock=process_time)
    finally:
        torch.set_num_threads(threads)


def _forward(pattern: Pattern, n: int) -> dict[str, Any]:
    """Forward only, beside compiled FlexAttention, which has no backward on the CPU.

    In separate processes, one after the other: compiled code brings its own pool of threads, and
    two pools that wait for work on the same cores slow each other down many times over.
    """
    from anyseq.ops.flex import has_compiler

    backends = {"anyseq": "auto"} | ({"flex": "flex"} if has_compiler() else {})
    case = {"tokens": n, "pattern": pattern.to_dict()}
    times: dict[str, list[float]] = {name: [] for name in backends}
    for _ in range(3):
        for name, backend in backends.items():
            found = peak(case | {"forward": backend}, torch.get_num_threads())
            times[name].append(found["seconds"])
    matches = None
    if has_compiler():
        matches = c.anyseq_operator(pattern, "flex", _CHECKED).matches()
    medians_ = {name: median(taken) for name, taken in times.items()}
    return {"pattern": repr(pattern), "flex": None, **medians_, "flex_matches": matches}


def _growth(pattern: Pattern, n: int, longest: int) -> dict[str, Any]:
    """A training step at n, 2n, 8n and the longest length, each in a fresh process."""
    threads = torch.get_num_threads()
    steps = {
        tokens: peak({"tokens": tokens, "pattern": pattern.to_dict()}, threads)
        for tokens in (n, 2 * n, 8 * n, longest)
    }
    return {
        "pattern": repr(pattern),
        "steps": [{"tokens": tokens, **figures} for tokens, figures in steps.items()],
        "time_growth": steps[8 * n]["seconds"] / steps[n]["seconds"],
        "memory_growth": steps[8 * n]["extra_bytes"] / steps[n]["extra_bytes"],
    }


def _urpe(n: int) -> dict[str, Any]:
    """URPE with RelativeBias, with gradients of both tables."""
    builds: dict[str, c.Build] = {
        "anyseq": partial(c.urpe, "anyseq"),
        "SDPA, no bias, no gain": c.dense_sdpa,
        "SDPA, dense bias": partial(c.urpe, "sdpa"),
        "formula": partial(c.urpe, "formula"),
    }
    matches = builds["anyseq"](_CHECKED).matches()
    times = medians({name: build(n).train for name, build in builds.items()}, rounds=_ROUNDS)
    threads = torch.get_num_threads()
    extra = {
        tokens: peak({"tokens": tokens, "urpe": "anyseq"}, threads)["extra_bytes"]
        for tokens in (n, 4 * n)
    }
    return {
        "tokens": n,
        "seconds": times,
        "matches": matches,
        "extra_bytes": {str(tokens): taken for tokens, taken in extra.items()},
        "memory_growth_4x": extra[4 * n] / extra[n],
    }


def _all_short() -> list[dict[str, Any]]:
    """One sequence, and a batch of them."""
    return [
        *(_short(Window(n // 4), n, 1) for n in (64, 128, 512)),
        *(_short(Window(16), n, 16) for n in (32, 64, 128, 256)),
        *(_short_urpe(n, 16) for n in (32, 64, 128, 256)),
    ]


def _short(pattern: Pattern, n: int, batch: int) -> dict[str, Any]:
    """What `auto` chooses at a length where dense may win."""
    builds = {
        "auto": partial(c.anyseq_operator, pattern, "auto"),
        "SDPA, mask": partial(c.masked_sdpa, pattern),
        "native": partial(c.anyseq_operator, pattern, "native"),
        "formula": partial(c.anyseq_operator, pattern, "reference"),
    }
    return {"what": repr(pattern), **_against_best(builds, n, batch)}


def _short_urpe(n: int, batch: int) -> dict[str, Any]:
    """The same for URPE with RelativeBias, which SDPA does not support."""
    builds = {"auto": partial(c.urpe, "anyseq"), "formula": partial(c.urpe, "formula")}
    return {"what": "URPE", **_against_best(builds, n, batch)}


def _against_best(
    builds: Mapping[str, Callable[[int, int], c.Run]], n: int, batch: int
) -> dict[str, Any]:
    runs = {name: build(n, batch) for name, build in builds.items()}
    times = medians({name: run.train for name, run in runs.items()}, _SHORT_ROUNDS)
    forward = medians({name: run.infer for name, run in runs.items()}, _SHORT_ROUNDS)
    return {
        "tokens": n,
        "batch": batch,
        "seconds": times,
        "auto_over_best": _over_best(times),
        "forward_over_best": _over_best(forward),
    }


def _over_best(times: Mapping[str, float]) -> float:
    return times["auto"] / min(taken for name, taken in times.items() if name != "auto")
