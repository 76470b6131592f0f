"""The bench of training steps: every setting that torch has parts for, and who is slower."""

from __future__ import annotations

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
        assert row["against_torch"] == pytest.approx(row["own"] / row["torch"])
        assert (row["against_rpe"] is None) == (row["setting"] != "urpe")
        assert 0 < row["data_share"] < 1


def test_the_text_names_who_is_slower() -> None:
    def row(setting: str, own: float) -> dict[str, object]:
        return {
            "experiment": "copying",
            "setting": setting,
            "own": own,
            "torch": 10.0,
            "against_torch": own / 10,
            "against_rpe": own / 8 if setting == "urpe" else None,
            "data_share": 0.01,
        }

    text = training_text({"threads": 2, "training": [row("star", 15.0), row("random", 8.0)]})
    assert "Slower than torch: copying, random: 0.80." in text
    assert "0.80 to 1.50 times torch's steps" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "URPE" not in text
    text = training_text({"threads": 2, "training": [row("urpe", 12.0)]})
    assert "Slower than torch: none." in text
    assert "URPE beside torch's layers without its gain: 1.50 to 1.50" in text
