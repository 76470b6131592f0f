"""Learning curves, who made a run, and results that are kept without their runs."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from anyseq.errors import InvalidArgument
from anyseq.experiments import EXPERIMENTS, Table, keep, kept_tables, report_text, reproduce, tables
from anyseq.experiments.record import Record
from anyseq.pictures.curves import curves_figure
from cli.test_cli import run as typed
from experiments.toys import Toy, ToyCell, first, second

POINTS = ToyCell("first", 12, batch=8, rate=1e-2, points=4, dropout=0.1)


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPERIMENTS, "toy", Toy(POINTS, second()))


def run(out: Path, only: str = "*", seeds: int = 1) -> Table:
    return reproduce("toy", scale="tiny", seeds=seeds, out=out, only=only)


def test_a_curve_ends_with_the_result_and_measuring_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = run(tmp_path / "measured", seeds=2)
    curve = measured.curve("first", "accuracy")
    assert [point.step for point in curve] == [3, 6, 9, 12]
    end = measured.summary("first", "accuracy")
    assert end is not None
    assert (curve[-1].mean, curve[-1].lowest) == (end.mean, end.lowest)
    assert [point.step for point in measured.curve("second", "loss")] == [6]  # points: the end only
    monkeypatch.setitem(EXPERIMENTS, "toy", Toy(first(), second()))
    plain = reproduce("toy", scale="tiny", seeds=1, out=tmp_path / "plain")
    monkeypatch.setitem(EXPERIMENTS, "toy", Toy(first(), second()))
    unmeasured = plain.summary("first", "loss")
    monkeypatch.setitem(EXPERIMENTS, "toy", Toy(ToyCell(**vars(first()) | {"points": 6}), second()))
    again = reproduce("toy", scale="tiny", seeds=1, out=tmp_path / "again").summary("first", "loss")
    assert unmeasured == again


def test_a_run_that_was_stopped_has_two_sittings_and_one_curve(tmp_path: Path) -> None:
    def interrupt(sight: object) -> None:
        if getattr(sight, "step", 0) == 5:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        reproduce("toy", scale="tiny", seeds=1, out=tmp_path, only="first", watch=interrupt)
    (record,) = run(tmp_path, "first").records
    assert [int(look["step"]) for look in record.curve] == [3, 6, 9, 12]
    assert len(record.sittings) == 2
    for sitting in record.sittings:
        assert (sitting["torch"], sitting["precision"]) == (torch.__version__, "no")
        assert sitting["threads"] == torch.get_num_threads()
        assert sitting["seconds"] > 0
        assert sitting["commit"]
    text = report_text(tables(tmp_path))
    assert f"with torch {torch.__version__}" in text
    assert "minutes of a run" in text


def test_only_some_settings(tmp_path: Path) -> None:
    assert run(tmp_path, "fir*").settings == ["first"]
    assert run(tmp_path, "second").settings == ["first", "second"]  # from the weights of the first
    with pytest.raises(InvalidArgument, match=r"--only third: toy has no such setting.*second"):
        run(tmp_path, "third")


def test_keeping_puts_new_runs_in_place_of_the_old(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"experiment": "toy", "scale": "tiny", "seed": 0, "metric": "accuracy", "value": 0.25}
    before = [row | {"setting": "first"}, row | {"setting": "first", "seed": 1}]
    before += [
        row | {"setting": "second"},
        row | {"experiment": "zinc", "setting": "rpe", "metric": "mae"},
    ]
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "results.json").write_text(json.dumps(before))
    found = run(tmp_path / "runs", "first")
    asked = ("reproduce", "--report", str(tmp_path / "runs"), "--keep", str(kept))
    assert typed(capsys, *asked)[0] == 0
    (zinc, toys) = sorted(kept_tables(kept), key=lambda table: table.experiment, reverse=True)
    assert [row["setting"] for row in zinc.rows] == ["rpe"]
    assert toys.summary("second", "accuracy") is not None
    end = found.summary("first", "accuracy")
    assert end is not None
    accuracies = [
        (row["seed"], row["value"])
        for row in toys.rows
        if (row["setting"], row["metric"]) == ("first", "accuracy")
    ]
    assert sorted(accuracies) == [(0, end.mean), (1, 0.25)]
    assert "1 of 3 runs have a record" in report_text([toys])
    assert toys.curve("first", "accuracy") == found.curve("first", "accuracy")
    assert not {row["metric"] for row in toys.rows} & {"steps_per_second", "data_share"}
    report = (kept / "report.md").read_text()
    assert "![toy](toy-tiny-curves.png)" in report
    assert (kept / "toy-tiny-curves.png").stat().st_size > 1000
    assert keep([found], kept) == kept_tables(kept)  # once more changes nothing
    code, _, err = typed(capsys, "reproduce", "--list", "--keep", str(kept))
    assert (code, "expected --report DIR with it" in err) == (2, True)


def test_the_picture_of_curves_has_a_line_and_the_papers_number_for_each_setting(
    tmp_path: Path,
) -> None:
    figure = curves_figure(run(tmp_path))
    assert figure is not None
    (panel,) = figure.axes
    line, mark = panel.get_lines()
    assert np.asarray(line.get_xdata()).tolist() == [3, 6, 9, 12]
    # the second setting has too few points to be a curve
    assert np.asarray(mark.get_ydata()).tolist() == [0.5]
    rows = [{"setting": "first", "seed": 0, "metric": "accuracy", "value": 0.5}]
    assert curves_figure(Table("toy", "tiny", rows)) is None
    few = Record("first", 0, [], [{"step": 1, "accuracy": 0.1}, {"step": 2, "accuracy": 0.2}])
    assert curves_figure(Table("toy", "tiny", rows, records=[few])) is None
