"""README is true: its examples run and print what stands below them, its figures are those of the
pages that commands write, its links lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest

import anyseq as aq
from anyseq.cli import main
from snippets import output_of

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
SHOWN = re.findall(r"```python\n(.*?)```\n+(?:```text\n(.*?)```)?", README, flags=re.DOTALL)


def without_sizes(text: str) -> str:
    """Rounding differs from machine to machine: sizes, and the last digits of numbers."""
    text = re.sub(r"\(effect [^)]*\)|\d\.\de-\d+", "#", text)
    return re.sub(r"\d+\.\d{9,}", lambda number: f"{float(number[0]):.9g}", text)


@pytest.mark.parametrize(("code", "expected"), SHOWN)
def test_examples_print_what_stands_below_them(code: str, expected: str, tmp_path: Path) -> None:
    out = output_of(code, tmp_path)
    assert out
    if expected:
        assert without_sizes(out) == without_sizes(expected)


def test_it_is_short_and_has_an_example_for_each_verb() -> None:
    assert len(README.splitlines()) <= 150
    assert len(SHOWN) == 4
    for verb in ("aq.check(", "aq.audit(", "aq.approximate(", "aq.nn.Transformer("):
        assert sum(verb in code for code, _ in SHOWN) == 1


def test_the_speed_table_is_that_of_the_page_of_figures() -> None:
    """Each row of README stands in docs/measured.md, which `anyseq bench attention` writes."""
    page = (ROOT / "docs" / "measured.md").read_text()
    rows = re.findall(r"^\| (\d.*?) \| (.*?) \| (.*?) \| (.*?) \| (.*?) \|$", README, re.MULTILINE)
    assert len(rows) == 5
    for shape, pattern, dense, ours, faster in rows:
        batch, heads, tokens = shape.split(" x ")
        head = re.escape(f"{batch} x {heads} heads x {tokens}, dense SDPA")
        (section,) = re.findall(rf"^{head} (.*?)(?=^\S|^```)", page, re.MULTILINE | re.DOTALL)
        assert section.split("1.0 x")[0].strip() == dense
        (row,) = [line for line in section.splitlines() if line.strip().startswith(pattern + "  ")]
        assert f" {ours} " in row
        assert f" {faster} " in row


def test_its_commands_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^anyseq \S+|`anyseq ([a-z]+)", README, re.MULTILINE)
    named = {one for one in commands if one} | {"play"}
    assert named == {"play", "check", "audit", "demo", "reproduce"}
    for command in named:
        with pytest.raises(SystemExit) as stopped:
            main(shlex.split(f"{command} --help"))
        assert stopped.value.code == 0
    assert capsys.readouterr().out


def test_the_number_of_planted_faults() -> None:
    planted = re.findall(r"^### ", (ROOT / "docs" / "faults.md").read_text(), re.MULTILINE)
    assert f"[{len(planted)} planted faults" in README


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", README)
    assert len(targets) > 15
    for target in targets:
        assert target.startswith("https://arxiv.org/") or (ROOT / target).exists(), target


def test_nothing_is_promised_twice() -> None:
    """The version stands in one place each, and they agree."""
    for file, text in (
        ("pyproject.toml", f'version = "{aq.__version__}"'),
        ("CITATION.cff", f"version: {aq.__version__}\n"),
        ("CHANGELOG.md", f"## {aq.__version__}"),
    ):
        assert text in (ROOT / file).read_text()
