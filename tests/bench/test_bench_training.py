"""The bench of training steps: every setting that torch has parts for, and who is slower."""

from __future__ import annotations

import math
import random

import pytest

from anyseq.bench import bench_training, training
from anyseq.cli.bench_training_text import training_text
from anyseq.experiments import EXPERIMENTS


def test_every_setting_with_a_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    """masked-lm has settings that torch has no parts for."""
    chosen = {name: EXPERIMENTS[name] for name in ("constant-input", "masked-lm", "overhead")}
    monkeypatch.setattr(training, "EXPERIMENTS", chosen)
    seen: list[int] = []
    figures = bench_training(lambda what, done, whole: seen.append(done), scale="tiny")
    settings = {(row["experiment"], row["setting"]) for row in figures["training"]}
    assert {setting for name, setting in settings if name == "constant-input"} == {
        "none", "rpe", "urpe", "absolute"
    }  # fmt: skip
    assert ("masked-lm", "attention") in settings
    assert ("masked-lm", "bproj") not in settings
    assert not any(name == "overhead" for name, _ in settings)
    assert seen == sorted(seen)
    for row in figures["training"]:
        against = row["against_torch"]
        assert 0 < against["low"] <= against["ratio"] <= against["high"]
        assert (row["against_formula"] is None) == (row["setting"] != "urpe")
        assert 0 < row["data_share"] < 1


def test_a_ratio_holds_the_truth_as_often_as_it_says() -> None:
    """Passes whose ratios scatter around 1.1: about 95 of 100 intervals hold it."""
    rng, held = random.Random(0), 0
    for _ in range(400):
        passes = [{"own": 1.0, "torch": 1.1 * math.exp(rng.gauss(0, 0.03))} for _ in range(5)]
        found = training._ratio(passes, "torch")
        held += found["low"] <= 1.1 <= found["high"]
    assert 0.92 <= held / 400 <= 0.98


def test_the_text_names_who_is_slower() -> None:
    def against(ratio: float) -> dict[str, float]:
        return {"ratio": ratio, "low": ratio * 0.95, "high": ratio * 1.05}

    def row(setting: str, own: float) -> dict[str, object]:
        return {
            "experiment": "copying",
            "setting": setting,
            "own": own,
            "torch": 10.0,
            "against_torch": against(own / 10),
            "against_formula": against(own / 16) if setting == "urpe" else None,
            "data_share": 0.01,
        }

    def words(*rows: dict[str, object]) -> str:
        text = training_text({"threads": 2, "training": list(rows)})
        assert all(len(line) <= 80 for line in text.splitlines())
        return " ".join(text.split())

    text = words(row("star", 15.0), row("fixed", 9.8), row("random", 8.0))
    assert "0.80 to 1.50 times the steps of torch's layers" in text
    assert (
        "the median 0.98; of 3 faster: 1, within the noise: 1, slower: copying, random: 0.80"
        in text
    )
    assert "star 15.0 1.50 ± 5%" in text
    assert "formula of URPE" not in text
    text = words(row("urpe", 12.0))
    assert "slower: none. 0.75 to 0.75 times the steps of the formula of URPE" in text
    assert "slower: copying, urpe: 0.75." in text
