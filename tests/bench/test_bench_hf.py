"""The bench of Hugging Face models: tiny ones, every figure, and text that fits."""

from __future__ import annotations

import pytest
import torch

from anyseq.bench import bench_hf, hf
from anyseq.cli.bench_hf_text import hf_text


def test_every_model_and_attention_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hf, "ROUNDS", 1)
    monkeypatch.setattr(hf, "_peak", lambda *case: 1000)  # each a process of its own
    figures = bench_hf(beside=1, quick=True)
    met = [(row["model"], row["attention"]) for row in figures["hf"]]
    assert met == [(name, one) for name in hf.SHAPES for one in hf.attentions(name)]
    assert len(met) == 8
    for row in figures["hf"]:
        assert 0 < row["seconds"] < 60
        assert 0 < row["beside_seconds"] < 60
    text = hf_text(figures)
    assert max(map(len, text.splitlines())) <= 80
    assert text.count(" x") == 15
    assert "gpt-oss, 48" in text


def test_memory_is_told_by_a_process(capsys: pytest.CaptureFixture[str]) -> None:
    threads = torch.get_num_threads()
    hf.main('["gpt-oss", 32, "anyseq", true]', str(threads))
    assert int(capsys.readouterr().out) >= 0
    found = hf._peak("ModernBERT", 32, "sdpa", True)
    assert found is None or found >= 0


def test_wide_figures_still_fit() -> None:
    row = {"model": "ModernBERT", "tokens": 4096, "beside_seconds": 99.0, "extra_bytes": 9_999e6}
    rows = [
        row | {"attention": "eager", "seconds": 999.0},
        row | {"attention": "sdpa", "seconds": 99.0},
        row | {"attention": "anyseq", "seconds": 10.0},
    ]
    text = hf_text({"threads": 16, "beside": 2, "hf": rows})
    assert max(map(len, text.splitlines())) <= 80
