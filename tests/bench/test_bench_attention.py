"""The figures themselves are for quiet machines; who takes part, and who computes what, is not."""

from pathlib import Path
from typing import Any

import pytest

from anyseq.bench import attention as bench
from anyseq.bench import shapes
from anyseq.bench.busy import busy
from anyseq.bench.contestants import Run, anyseq_operator
from anyseq.bench.peak import measure, peak
from anyseq.cli.bench_text import attention_text
from anyseq.ops import flex
from anyseq.patterns import Window
from anyseq.pictures.bench import bench_figure
from anyseq.pictures.style import save


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench, "_ROUNDS", 1)
        patch.setattr(bench, "_SHORT_ROUNDS", 1)
        # Ten fresh processes would take as long; memory has a test of its own below.
        patch.setattr(bench, "peak", lambda case, threads: measure(case) | {"extra_bytes": 1})
        patch.setattr(flex, "has_compiler", lambda: False)  # compiling would take half a minute
        patch.setattr(bench, "_CPU_ROUNDS", 1)
        patch.setattr(shapes, "ROUNDS", 1)
        small = ((2, 4, 2, 256), (3, 2, 2, 97))
        return bench.bench_attention(tokens=1024, longest=2048, shapes=small, beside=1)


@pytest.mark.long
def test_everybody_who_should_computes_the_formula(figures: dict[str, Any]) -> None:
    rows = {(row["pattern"].partition("(")[0], row["contestant"]): row["matches"]
            for row in figures["training"]}  # fmt: skip
    for pattern in ("Window", "Star", "Longformer", "Strided", "Fixed", "BigBird"):
        assert rows[pattern, "anyseq"] is True
        assert rows[pattern, "SDPA, bool mask"] is True
    assert rows["Window", "local-attention"] is True
    assert rows["Window", "HF Longformer layer"] is True
    assert rows["BigBird", "HF BigBird layer"] is None, "its random blocks are its own"
    assert figures["urpe"]["matches"] is True


@pytest.mark.long
def test_everyday_shapes_are_measured_quiet_and_beside_others(figures: dict[str, Any]) -> None:
    rows = figures["shapes"]
    assert [row["shape"] for row in rows[::6]] == [[2, 4, 2, 256], [3, 2, 2, 97]]
    assert [row["beside_seconds"] is not None for row in rows] == 2 * [True, *5 * [False]]
    assert all(0 < row["in_tiles"] <= 1.5 for row in rows)
    assert [row["visible"] for row in figures["decoding"]] == [8192, 1024]


def test_other_work_ends_with_the_measurement() -> None:
    with busy(2) as others:
        assert [other.poll() for other in others] == [None, None]
    assert None not in [other.poll() for other in others]


def test_a_wrong_contestant_would_be_seen() -> None:
    right = anyseq_operator(Window(128), "auto", 300)
    off_by_one = anyseq_operator(Window(127), "auto", 300)
    assert right.matches() is True
    assert Run(off_by_one.forward, [], right.expected).matches() is False


def test_the_text_fits_a_terminal_and_the_picture_is_drawn(
    figures: dict[str, Any], tmp_path: Path
) -> None:
    text = attention_text(figures)
    assert max(map(len, text.splitlines())) <= 80
    assert "Window(16), 16 x 64 " in text
    assert "URPE, 16 x 64 " in text
    for word in ("BigBird(64, 3, 2, 3)", "HF Longformer layer", "URPE", "no compiler", "auto"):
        assert word in text
    save(bench_figure(figures), tmp_path / "bench.png")
    assert (tmp_path / "bench.png").stat().st_size > 10_000


def test_memory_is_measured_in_a_process_of_its_own(figures: dict[str, Any]) -> None:
    for case in figures["growth"]:
        assert [step["tokens"] for step in case["steps"]] == [1024, 2048, 8192]
    found = peak({"tokens": 4096, "pattern": Window(128).to_dict()}, threads=1)
    output = 4 * 4 * 4096 * 64  # bytes: out and three gradients are of this size
    assert output < found["extra_bytes"] < 100 * output
