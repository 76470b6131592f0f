"""The fixture `anyseq_audit`, in somebody's own tests."""

import subprocess
import sys
from pathlib import Path

TESTS = """
import anyseq as aq
import torch


def model(pattern):
    return aq.nn.Transformer(aq.Design(20, pattern, aq.Rotary()), dim=16, depth=1, heads=2)


def test_that_passes(anyseq_audit):
    assert anyseq_audit(model(aq.Causal())).passed


def test_that_fails(anyseq_audit):
    anyseq_audit(model(aq.Full()), aq.Causal())
"""


def test_it_is_there_and_fails_with_the_faults(tmp_path: Path) -> None:
    (tmp_path / "test_model.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "1 failed, 1 passed" in done.stdout
    assert "attends to the later token" in done.stdout
    assert "Traceback" not in done.stdout


def test_pytest_alone_imports_nothing_heavy() -> None:
    code = "import sys, anyseq.pytest_plugin; print({'torch', 'transformers'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
