import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from anyseq.base import medians, seconds
from anyseq.bench import bench_adaptive, bench_construct, bench_fit
from anyseq.cli.bench_text import adaptive_text, construct_text, fit_text
from anyseq.construct.methods import METHODS


def test_timing() -> None:
    assert seconds(lambda: time.sleep(0.01)) >= 0.01
    calls: list[str] = []
    works = {name: partial(calls.append, name) for name in "abc"}
    times = medians(works, rounds=9)
    rounds = [calls[first : first + 3] for first in range(0, 30, 3)]
    assert all(set(one) == {"a", "b", "c"} for one in rounds), "all of them, in every round"
    assert len(set(map(tuple, rounds))) > 1, "not always in the same order"
    assert times.keys() == {"a", "b", "c"}


def test_memory_is_the_peak_above_what_was_held() -> None:
    """64 MiB written and freed again; nothing at all; pages counted in batches on both sides. In a
    new process, since one that has run other tests may give their memory back meanwhile."""
    wanted, batches = 1 << 26, 1 << 22
    code = (
        "from anyseq.base import extra_bytes\n"
        f"print(extra_bytes(lambda: b'x' * {wanted}), extra_bytes(lambda: None))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    full, empty = map(int, done.stdout.split())
    assert abs(full - wanted) <= batches
    assert 0 <= empty <= batches


@pytest.mark.long
def test_bench_construct_measures_what_it_says() -> None:
    """The figures themselves are for quiet machines; sizes and agreement hold anywhere."""
    stages: list[str] = []
    figures = bench_construct(lambda stage, done, total: stages.append(stage), sizes=(100, 1000))
    assert figures["yun_fused"]["layers"] == 16452
    assert figures["yun_fused"]["largest_difference"] <= 1e-9
    assert figures["yun_fused"]["ratio"] > 1
    assert list(figures["sizes"]) == list(METHODS)
    for series in figures["sizes"].values():
        for least, row in zip((100, 1000), series, strict=False):
            assert row["cells"] >= least
            assert row["evaluations_per_second"] > 0
            assert 0 <= row["build_bytes"] + row["model_bytes"] < 2**30
    assert [row["cells"] for row in figures["sizes"]["gather"]] == [289, 1089]
    for row in figures["sizes"]["gather"]:
        row |= {"cells": 9_999_999, "parameters": 10**9, "model_bytes": 9 * 10**9}
    figures["sizes"]["sum"][0] |= {"model_seconds": None, "model_bytes": None}
    assert max(map(len, construct_text(figures).splitlines())) <= 80
    assert figures["yun_deep"]["layers"] > 262_000
    assert len(stages) == 4


def test_bench_fit_measures_what_it_says() -> None:
    """plus-mean is linear: least squares has nothing left to miss, the constant has."""
    figures = bench_fit(tasks=(("plus-mean", 2, 1, 0.1),))
    (row,) = figures["fits"]
    assert row["lower"] <= row["error"] <= 0.1
    assert row["linear"] < 1e-9
    assert row["constant"] > 0.2
    assert row["seconds"] > 0
    assert row["cpu_seconds"] > 0
    lines = fit_text(figures).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1].startswith("plus-mean, 2 x 1")


def test_bench_adaptive_compares_at_equal_errors() -> None:
    figures = bench_adaptive()
    assert {row["function"] for row in figures["rows"]} == {"bump", "spike"}
    for row in figures["rows"]:
        assert row["nodes"] <= row["even_nodes"]
        assert row["parameters"] <= row["even_parameters"]
    text = adaptive_text(figures)
    assert max(map(len, text.splitlines())) <= 80
    page = (Path(__file__).parents[2] / "docs" / "comparison.md").read_text()
    assert text in page
