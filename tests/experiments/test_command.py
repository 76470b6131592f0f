"""`anyseq reproduce`, as people type it."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from anyseq.experiments import EXPERIMENTS, report_text, reproduce
from anyseq.pictures.experiment import experiment_figure
from cli.test_cli import run
from experiments.toys import Toy, first, second


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPERIMENTS, "toy", Toy(first(), second()))


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "reproduce", "--list")
    assert (code, err) == (0, "")
    assert all(name in out for name in EXPERIMENTS)
    code, out, _ = run(capsys, "reproduce", "--list", "--json")
    assert [row["name"] for row in json.loads(out)] == [*EXPERIMENTS]


@pytest.mark.usefixtures("toy")
def test_run_and_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("reproduce", "toy", "--scale", "tiny", "--seeds", "2", "--out", str(tmp_path))
    code, out, err = run(capsys, *asked)
    assert (code, err) == (0, "")
    assert "**same**: it ran." in out
    code, again, _ = run(capsys, *asked, "--json")
    rows = json.loads(again)
    assert rows == json.loads((tmp_path / "results.json").read_text())
    code, reported, _ = run(capsys, "reproduce", "--report", str(tmp_path))
    assert code == 0
    assert out.strip() in reported
    report = (tmp_path / "report.md").read_text()
    assert "![toy](toy-tiny.png)" in report
    assert (tmp_path / "toy-tiny.png").stat().st_size > 1000
    (line,) = (line for line in report.splitlines() if line.startswith("| first"))
    values = [
        row["value"] for row in rows if (row["setting"], row["metric"]) == ("first", "accuracy")
    ]
    mean = sum(values) / 2
    spread = abs(values[0] - values[1]) / 2**0.5
    assert f"| first | {mean:.3f} ± {spread:.3f} | 0.500 | 2 |" in line


@pytest.mark.usefixtures("toy")
def test_the_picture_has_a_bar_for_each_setting(tmp_path: Path) -> None:
    table = reproduce("toy", scale="tiny", seeds=1, out=tmp_path)
    figure = experiment_figure(table)
    assert figure is not None
    (panel,) = figure.axes
    assert experiment_figure(replace(table, rows=[])) is None
    assert [label.get_text() for label in panel.get_yticklabels()] == ["first", "second"]
    widths = [bar.get_width() for bar in panel.patches]  # type: ignore[attr-defined]
    assert widths == [*table.means("accuracy").values()]
    assert "±" not in report_text([table])  # one seed has no spread


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "expected one of NAME, --list and --report DIR"),
        (("copying", "--list"), "expected one of NAME, --list and --report DIR"),
        (("nothing",), "NAME='nothing': expected one of 'position-identification'"),
        (("copying", "--scale", "huge"), "--scale='huge': expected one of 'tiny'"),
        (("copying", "--seeds", "0"), "--seeds=0: expected a whole number, 1 or more"),
        (("copying", "--data", "nowhere"), "--data nowhere is not a folder"),
        (("--report", "nowhere"), "--report nowhere: no finished run is there"),
        (("copying", "--out", os.devnull), "cannot be made"),
    ],
)
def test_bad_input(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "reproduce", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


@pytest.mark.usefixtures("toy")
def test_a_full_disk_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("anyseq.base.files.os.fsync", full)
    code, out, err = run(capsys, "reproduce", "toy", "--out", str(tmp_path))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "No space left on device" in err


def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    command = "from anyseq.cli import main; main()"
    asked = ["reproduce", "position-identification", "--seeds", "1", "--out", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-c", command, *asked], stderr=subprocess.PIPE, text=True
    )
    lines = tmp_path / "position-identification/small/none/seed-0/metrics.jsonl"
    while process.poll() is None and not (lines.exists() and lines.read_text()):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert err.count("\n") == 1
    assert "stopped at step" in err
    assert "the same command resumes from there" in err
