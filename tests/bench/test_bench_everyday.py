"""The bench of everyday needs: tiny sizes, every figure, and text that fits."""

from __future__ import annotations

import pytest

from anyseq.bench import bench_everyday, everyday
from anyseq.cli.bench_everyday_text import everyday_text
from anyseq.ops.flex import has_compiler
from versions import compiles


def test_every_figure_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(everyday, "ROUNDS", 1)
    monkeypatch.setattr(everyday, "has_compiler", lambda: True)
    monkeypatch.setattr(  # each compiles, in a process of its own
        everyday,
        "_in_a_process",
        lambda name, layers: {"what": name, "layers": layers, "seconds": 123.4, "graphs": 1},
    )
    figures = bench_everyday(quick=True)
    assert [row["dtype"] for row in figures["halves"]] == ["float32", "bfloat16", "float16"]
    assert figures["halves"][0]["to_float32"] == 1
    assert all(
        0 < row["seconds"][who] < 60 for row in figures["padding"] for who in ("anyseq", "SDPA")
    )
    assert [row["what"] for row in figures["compiled"]] == list(everyday.COMPILED)
    text = everyday_text(figures)
    assert max(map(len, text.splitlines())) <= 80
    assert "Neighbourhood, 1 x 4 heads x 256" in text
    assert "torch.compile, layers: 1" in text


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(everyday, "ROUNDS", 1)
    monkeypatch.setattr(everyday, "has_compiler", lambda: False)
    assert "there is no C++ compiler here" in everyday_text(bench_everyday(quick=True))


@compiles
@pytest.mark.skipif(not has_compiler(), reason="inductor writes C++, and there is no compiler")
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method`:DeprecationWarning")  # of inductor
@pytest.mark.long
def test_one_graph_serves_all_lengths() -> None:
    found = everyday.first_step("Rotary", 1)
    assert found["graphs"] == 1
    assert found["seconds"] > 0
