"""Random command lines: an answer, or one line that says what is wrong; never a traceback."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from anyseq.cli import main

LINES = 60
PATTERNS = (
    "window(1)", "full", "causal & window(2)", "~window(1)", "longformer(1)", "global(0, -1)",
    "random(2, 3)", "strided(2)", "perhead(window(1), full)", "window(99999999999999999999)",
    "window(-1)", "window(0)", "window(1.5)", "window(x)", "window", "full()", "", " ", "()", "a b",
    "~" * 300 + "full", "(" * 300 + "full" + ")" * 300, "(" * 300, "|".join(["full"] * 400),
    "&".join(["full"] * 200), "~ " * 200 + "full", "full|" * 3, "window(" * 80, "1", "-full",
    "full if full else full", "__import__('os')", "window(radius=2)", "window(r=2)", "fixed(10**9)",
    "global(" + "0," * 999 + ")", "window(9223372036854775807)", "window(" + "9" * 5000 + ")",
    "blocks(9223372036854775807)", "dilated(4611686018427387904, 4)", "x" * 9000, "full\n|full",
    "random(4,4)|bigbird(1)", "ring(3)", "star(10000000000)", "\u2003full", "\x00", "full#",
)  # fmt: skip
NUMBERS = ("1", "2", "3", "0", "-1", "16", "4097", "1000000000000", "9" * 25, "1e3", "nan", "x", "")
WORDS = {
    "--tokens": ("1", "2", "3", "4", "4", "5", *NUMBERS),
    "--depth": ("1", "2", "3", *NUMBERS),
    "--features": ("1", "1", "2", "16", *NUMBERS),
    "--out-features": ("1", "2", *NUMBERS),
    "--tol": ("0.9", "0.5", "0.5", "2", "0", "-1", "1e-300", "1e300", "nan", "inf", "x"),
    "--lipschitz": ("1", "2", "0", "-1", "1e-9", "1e400", "nan", "inf", "x"),
    "--curvature": ("1", "0", "-1", "1e300", "nan"),
    "--bound": ("1", "0", "1e300", "nan"),
    "--norm": ("sup", "lp", "mean", "SUP", ""),
    "--p": ("1", "2", "0.5", "1e9", "nan"),
    "--target": ("all", "causal", "equivariant", "both"),
    "--position": (
        "none",
        "absolute",
        "rope",
        "alibi",
        "urpe(rope)",
        "t5",
        "grid(2, 2)",
        "grid(0)",
        "urpe(grid(1,3))",
        "grid(99999999999, 99999999999)",
        "urpe(urpe)",
        "x",
        "",
    ),
    "--prob-map": ("softmax", "hardmax", "sparsemax", "topk(2)", "topk(0)", "topk", "x"),
    "--method": ("auto", "gather", "yun", "sum", "partition", "boltzmann", "none"),
    "--function": ("sort", "reverse", "plus-mean", "spike", "no:where", "os:path", "x", "math:pi"),
    "--budget": ("1000", "100000", "0", "-1", "9" * 25),
    "--seconds": ("1", "0.001", "0", "-1", "nan", "x"),
    "--final-norm": ("layernorm", "rmsnorm", "x"),
    "--layer": (
        "full",
        "causal, rope",
        "recurrence",
        "linear, sinks",
        "convolution(3, causal)",
        "",
        ",",
        "full,,",
        "average, average",
        "convolution(" + "9" * 5000 + ")",
        "linear(",
        "(,",
        "full, " * 300,
        "perhead(full, causal), none, no feed-forward",
        "x" * 9000,
    ),
    "--block-norm": ("pre", "post", "sandwich", "x"),
    "--domain": ("cube", "ids", "x"),
    "--readout": ("all", "last", "0", "-1", "9" * 25, "x"),
    "--seed": ("0", "-1", "9" * 25),
}
FLAGS = ("--bos", "--sinks", "--json", "--no-feedforward", "--head", "--nonsense")
OWN = {
    "check": ("--tokens", "--depth", "--norm", "--target", "--position", "--prob-map", "--seconds",
              "--final-norm", "--layer", "--block-norm", "--domain", "--readout"),
    "plan": ("--tokens", "--depth", "--features", "--out-features", "--tol", "--lipschitz",
             "--curvature", "--bound", "--norm", "--p", "--position", "--prob-map", "--function",
             "--budget", "--layer"),
    "approximate": ("--tokens", "--function", "--tol", "--features", "--norm", "--p", "--method",
                    "--lipschitz", "--curvature", "--budget", "--seed", "--position", "--depth"),
    "show": ("--tokens", "--layer", "--position"),
}  # fmt: skip
NEEDED = {
    "check": ("--tokens",),
    "plan": ("--tokens", "--tol", "--lipschitz"),
    "approximate": ("--tokens", "--tol", "--function", "--budget"),
    "show": (),
}
SECONDS = 90  # for one command, on a machine that does other things, too


@pytest.mark.parametrize("part", range(4))
def test_every_line_has_an_answer(
    part: int,
    soak: int,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    codes = set()
    for number in range(LINES // 4 * soak):
        arguments = line(np.random.default_rng([part, number]))
        start = time.monotonic()
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        out, err = capsys.readouterr()
        code = stopped.value.code
        codes.add(code)
        assert code in (0, 1, 2), arguments
        assert "Traceback" not in out + err, arguments
        assert (code == 2) == err.lstrip().startswith("anyseq:"), (arguments, err)
        assert len(err) < 6000, arguments
        assert time.monotonic() - start < SECONDS, arguments
    assert {0, 2} <= codes


def line(rng: np.random.Generator) -> list[str]:
    command = str(rng.choice(["check", "check", "plan", "plan", "approximate", "show"]))
    options = {*NEEDED[command], *(name for name in OWN[command] if rng.random() < 0.25)}
    words = [command]
    for name in sorted(options):
        choices = WORDS[name]
        sound = rng.random() < 0.8
        words += [name, choices[rng.integers(3 if sound else len(choices))]]
    if command != "show" and rng.random() < 0.5:
        for _ in range(rng.integers(1, 4)):
            sound = rng.random() < 0.6
            words += ["--pattern", PATTERNS[rng.integers(9 if sound else len(PATTERNS))]]
    words += [flag for flag in FLAGS if rng.random() < 0.08]
    if rng.random() < (0.7 if command == "show" else 0.05):
        words.append(str(rng.choice(["nowhere", "", ".", "x.json", "-", "\x00", "a" * 2000])))
    if rng.random() < 0.1:
        words.pop(rng.integers(1, len(words) + 1) - 1)
    return words or ["check"]
