"""What a terminal shows: 80 columns, and help at once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from anyseq.cli import main
from anyseq.cli.main import _COMMANDS

_SECONDS = 2.0
"""For help, on a busy machine; on an idle one it takes about 0.15."""


def helped(*arguments: str) -> tuple[str, float]:
    """The help, and the least time of three that it took."""
    taken, out = [], ""
    code = "from anyseq.cli import main; main()"
    for _ in range(3):
        start = time.perf_counter()
        out = subprocess.run(
            [sys.executable, "-c", code, *arguments, "--help"],
            check=True, capture_output=True, text=True, env=os.environ | {"COLUMNS": "80"},
        ).stdout  # fmt: skip
        taken.append(time.perf_counter() - start)
    return out, min(taken)


@pytest.mark.parametrize("command", ["", *sorted(_COMMANDS)])
def test_help_is_quick_and_80_columns_wide(command: str) -> None:
    out, seconds = helped(*[command] * bool(command))
    assert max(map(len, out.splitlines())) <= 80
    assert len(out.splitlines()) > 5
    assert seconds < _SECONDS


LINES = """
check --pattern window(64) --position rope --tokens 1024
check --pattern bigbird(64) --tokens 4096
check --pattern window(2) causal --tokens 12
check --layer causal,rope --layer recurrence --tokens 12
check --position none --tokens 4 --norm lp
compare causal,rope causal&window(64),rope longformer(32),urpe --tokens 256
plan --tokens 3 --tol 0.1 --lipschitz 1 --norm lp
plan --tokens 3 --tol 0.1 --function spike
approximate --function reverse --tokens 3 --tol 0.1
approximate --function sort --tokens 3 --tol 0.4 --norm lp --method yun
approximate --function waves --tokens 2 --tol 0.5 --pattern window(1) --position urpe
show --pattern window(2)|global(0) causal --tokens 12 --position urpe
reproduce --list
"""


@pytest.mark.parametrize("line", LINES.strip().splitlines())
def test_what_is_printed_is_80_columns_wide(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(line.split())
    out, err = capsys.readouterr()
    assert err == ""
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("line", ["check --pattern window(two) --tokens 8", "audit a:b", "audit x"])
def test_an_error_is_wrapped_in_a_terminal(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with pytest.raises(SystemExit):
        main(line.split())
    first, *others = capsys.readouterr().err.splitlines()
    assert len(first) <= 80
    assert all(other.startswith("  ") and len(other) <= 80 for other in others)


def test_an_error_is_one_line_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check", "--pattern", "window(two)", "--tokens", "8"])
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "radius 'two' is not a whole number" in err
    assert "such as window(64)" in err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("check --tokens ten", "--tokens: 'ten' is not a whole number"),
        ("plan --tokens 2 --tol much", "--tol: 'much' is not a number"),
        ("check --tokens 4 --position grid(2,x)", "length 'x' is not a whole number"),
        ("check missing.json", "file not found: missing.json"),
        ("show missing", "folder not found: missing"),
        ("explain missing --input 1", "folder not found: missing"),
        ("explain x --input 1 --picture x.gif", "ending in .png, .svg or .pdf"),
        ("explain x --input 1 --animate x.png", "ending in .gif or .html"),
        ("compare full --tokens 1000 --animate x.gif", "1,000 tokens are too many to draw"),
        ("show --tokens 257 --animate x.gif", "expected up to 256"),
        ("show tests --animate x.gif", "--animate x.gif: expected a design"),
    ],
)
def test_errors_name_what_was_wrong(
    line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(line.split())
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err


def test_several_patterns_follow_one_option(capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for options in (["window(1)", "--pattern", "causal"], ["window(1)", "causal"]):
        with pytest.raises(SystemExit):
            main(["show", "--pattern", *options, "--tokens", "8"])
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert "window(1) then causal" in said[0]


def test_animations_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, file = str(tmp_path / "net"), tmp_path / "a.gif"
    lines = [
        ["show", "--pattern", "window(2)", "--tokens", "8", "--animate", str(file)],
        ["compare", "window(2), rope", "full", "--tokens", "6", "--animate", str(file)],
        ["approximate", "--function", "reverse", "--tokens", "2", "--tol", "1", "--out", folder],
        ["explain", folder, "--input", "0.1,0.7", "--animate", str(file)],
    ]
    for line in lines:
        with pytest.raises(SystemExit) as stopped:
            main(line)
        assert stopped.value.code == 0
        if "--animate" in line:
            assert f"drawn in {file}" in capsys.readouterr().out
            assert file.read_bytes().startswith(b"GIF89a")
            file.unlink()
