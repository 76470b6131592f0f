"""Random designs in words, side by side: a table, or one line that says what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from anyseq.cli import main
from fuzz.test_commands import NUMBERS, PATTERNS, WORDS

LINES = 60
STAGES = (
    *PATTERNS, "recurrence", "(causal, rope)", "(recurrence)", "2 x full", "3 x (causal, none)",
    "convolution(3)", "linear, causal", "0 x full", "9999999 x full", "1 x", "x full", "((full))",
    "(full) & (full)", "(", ")", "()", ")(", "then", "config.json", "os:path", "math:pi", "\x00",
    "..", "a" * 2000,
)  # fmt: skip
COMMON = (
    "rope", "none", "alibi", "sinks", "bos", "depth 2", "topk(2)", "no feed-forward", "absolute",
    "urpe(absolute)", "grid(2, 2)", "depth", "depth 0", "depth x", "Depth  3", "bos bos", "", " ",
    "depth " + "9" * 30, "x" * 9000,
)  # fmt: skip


def test_every_comparison_has_an_answer(soak: int, capsys: pytest.CaptureFixture[str]) -> None:
    codes = set()
    for number in range(LINES * soak):
        rng = np.random.default_rng(number)
        subjects = [_words(rng) for _ in range(rng.integers(1, 4))]
        arguments = ["compare", *subjects, "--tokens", str(rng.choice(["4", "5", *NUMBERS[:3]]))]
        if rng.random() < 0.3:
            arguments += ["--target", str(rng.choice(WORDS["--target"]))]
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        out, err = capsys.readouterr()
        codes.add(stopped.value.code)
        assert (stopped.value.code == 2) == err.lstrip().startswith("anyseq:"), (arguments, err)
        assert stopped.value.code in (0, 2), arguments
        assert len(err) < 6000, arguments
        assert all(len(line) <= 80 for line in out.splitlines()), arguments
    assert codes == {0, 2}


def _words(rng: np.random.Generator) -> str:
    sound = rng.random() < 0.85
    stages = rng.choice(STAGES[:9] if sound else STAGES, size=rng.integers(1, 4))
    common = rng.choice(COMMON[:8] if sound else COMMON, size=rng.integers(0, 4), replace=False)
    return ", ".join([" then ".join(map(str, stages)), *map(str, common)])
