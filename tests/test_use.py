"""docs/use.md and the examples run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "use.md").read_text()


def test_the_page_runs_in_order(tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    differences = re.findall(r"differs by (?:tensor\()?([-\de.]+)", done.stdout)
    assert len(differences) == 2
    assert all(float(number) <= 1e-9 for number in differences)
    assert "says the same at every stage" in " ".join(done.stdout.split())
    for file in ("network.onnx", "network.pt2", "network.safetensors", "explained.png"):
        assert (tmp_path / file).stat().st_size > 1000


def test_fine_tuning(tmp_path: Path) -> None:
    """Few steps: what it measures about noise is the same as with many, and stands in the page."""
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / "fine_tune.py", "--steps", "2"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "fine_tune.png").stat().st_size > 10_000
    assert max(map(len, done.stdout.splitlines())) <= 80
    rows = [line for line in done.stdout.splitlines() if re.match(r"0 |1e-", line)]
    assert len(rows) == 7
    calm = [float(row.split()[1].rstrip(",")) for row in rows]
    assert calm[0] == calm[1]
    assert calm[-2] < 1.1 * calm[0]
    for name in ("gather, float64", "gather, float32", "yun, float64", "yun, float32"):
        assert name in done.stdout
        assert name in PAGE
