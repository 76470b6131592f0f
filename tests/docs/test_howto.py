"""docs/howto/*.md: the blocks of each page run in order, as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from versions import compiles

FOLDER = Path(__file__).parents[2] / "docs" / "howto"
PAGES = {page.stem: page.read_text() for page in sorted(FOLDER.glob("*.md"))}


def code_of(page: str) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", PAGES[page], flags=re.DOTALL))


def run(folder: Path, code: str, *launcher: str) -> str:
    """What it prints. Warnings are torch's affair here: its exporters have some of their own."""
    (folder / "page.py").write_text(code)
    command = [sys.executable, *launcher, "page.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_page_is_tried_here() -> None:
    assert set(PAGES) == {"compile", "distributed", "export", "patterns"}


@compiles
def test_compile(tmp_path: Path) -> None:
    assert run(tmp_path, code_of("compile")) == "True\n"


def test_export(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    assert run(tmp_path, code_of("export")).splitlines()[-1] == "True"
    for file in ("model.pt2", "model.onnx", "reverse.onnx", "reverse.safetensors"):
        assert (tmp_path / file).stat().st_size > 1000


def test_patterns(tmp_path: Path) -> None:
    out = run(tmp_path, code_of("patterns")).splitlines()
    assert out == ["True"] * 4 + ["torch.Size([1, 64, 16])"]


def test_distributed(tmp_path: Path) -> None:
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    assert "weights after training: True" in run(tmp_path, code_of("distributed"), *launcher)
    assert (tmp_path / "trained").is_dir()
