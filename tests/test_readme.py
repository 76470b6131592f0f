"""README is true: its examples run, its outputs are what comes out, its places exist."""

import re
import shlex
from pathlib import Path

import pytest

import anyseq as aq
from anyseq.cli import main
from snippets import output_of

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"))
def test_examples_run_as_they_stand(code: str, tmp_path: Path) -> None:
    assert output_of(code, tmp_path)


def test_there_is_an_example_per_user() -> None:
    assert len(blocks("python")) == 6


@pytest.mark.parametrize("session", blocks("console"))
def test_outputs_are_what_comes_out(session: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, _, expected = session.partition("\n")
    with pytest.raises(SystemExit):
        main(shlex.split(command.removeprefix("$ anyseq ")))
    assert capsys.readouterr().out == expected


def test_command_lines_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    commands = [line for line in lines if line.startswith("anyseq ")]
    assert len(commands) == 7
    for command in commands:
        with pytest.raises(SystemExit) as stopped:
            main(shlex.split(command)[1:])
        assert stopped.value.code == 0, capsys.readouterr().err
    assert (tmp_path / "sorted.png").is_file()
    assert (tmp_path / "runs" / "report.md").is_file()


def test_places_in_the_table_exist() -> None:
    rows = [line.split("|") for line in README.splitlines() if line.startswith("|")][2:]
    assert len(rows) >= 8
    for row in rows:
        for folder, column in (("src/anyseq", row[3]), ("tests", row[4])):
            places = re.findall(r"`([^`]+)`", column)
            assert places
            for place in places:
                assert (ROOT / folder / place).is_file(), place


def test_the_measured_block_speaks_of_the_networks_of_today() -> None:
    (block,) = re.findall(r"<!-- bench construct -->\n(.*?)<!-- end -->", README, re.DOTALL)
    for tokens, tol in ((4, 0.125 / 2 * 2 * 1.05), (4, 0.0625 / 2 * 2 * 1.05)):
        plan = aq.plan(aq.Design(tokens), 1, tol, lipschitz=1.0, norm="lp")
        assert f"{plan.choose('yun').shape.layers:,} layers" in block


def test_nothing_is_promised_twice() -> None:
    """The version stands in one place each, and they agree."""
    for file, text in (
        ("pyproject.toml", f'version = "{aq.__version__}"'),
        ("CITATION.cff", f"version: {aq.__version__}\n"),
        ("CHANGELOG.md", f"## {aq.__version__}"),
    ):
        assert text in (ROOT / file).read_text()
