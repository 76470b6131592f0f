"""A results.json alone makes the report, and the documentation's is of that kind."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from anyseq.cli.main import main
from anyseq.errors import FileProblem
from anyseq.experiments import EXPERIMENTS, Row, Table, kept_tables, report_text

DOCS = Path(__file__).parents[2] / "docs" / "experiments"


def test_the_documentation_is_what_its_results_say() -> None:
    report = (DOCS / "report.md").read_text(encoding="utf-8")
    found = kept_tables(DOCS)
    assert {table.experiment for table in found} == set(EXPERIMENTS)
    for table in found:
        assert report_text([table]) in report
        assert (DOCS / f"{table.experiment}-{table.scale}.png").exists()


def test_the_page_says_the_verdicts_of_its_results() -> None:
    """Those of the largest scale, with a picture for each claim."""
    page = (DOCS.parent / "experiments.md").read_text(encoding="utf-8")
    sections = re.findall(r"^### (\S+): (\w+)$(.*?)(?=^###? )", page, re.MULTILINE | re.DOTALL)
    largest = {table.experiment: table for table in kept_tables(DOCS)}
    assert [name for name, _, _ in sections] == [*dict.fromkeys(name for name, _, _ in sections)]
    assert {name: word for name, word, _ in sections} == {
        name: EXPERIMENTS[name].judge(table).word for name, table in largest.items()
    }
    for name, _, text in sections:
        for picture in (found := re.findall(r"\]\((experiments/\S+\.png)\)", text)):
            assert (DOCS.parent / picture).exists()
        assert found, name


def test_report_of_results_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"experiment": "zinc", "scale": "small", "setting": "rpe", "seed": 0}
    rows = [row | {"metric": "mae", "value": 0.5}]
    (tmp_path / "results.json").write_text(json.dumps(rows))
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "--report", str(tmp_path)])
    assert ended.value.code == 0
    assert "| rpe | 0.500 |" in (tmp_path / "report.md").read_text()
    assert (tmp_path / "zinc-small.png").exists()
    assert json.loads((tmp_path / "results.json").read_text()) == rows


def test_a_setting_without_the_metric_has_its_seeds_all_the_same() -> None:
    """Pre-training has a loss only."""
    rows = [
        Row(experiment="zinc", scale="small", setting=name, seed=seed, metric=metric, value=0.5)
        for name, seed, metric in (("rpe", 0, "mae"), ("begun", 0, "loss"), ("begun", 1, "loss"))
    ]
    text = report_text([Table("zinc", "small", rows)])
    assert "| rpe | 0.500 | 0.122 | 1 |" in text
    assert "| begun |  |  | 2 | 0.5 ± 0 |" in text


@pytest.mark.parametrize("text", ["", "{", '[{"experiment": "zinc"}]', "[1]"])
def test_damaged_results_are_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(FileProblem, match=r"results\.json' cannot be read"):
        kept_tables(tmp_path)
    assert kept_tables(tmp_path / "elsewhere") == []
