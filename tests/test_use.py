"""docs/use.md, docs/certificates.md, docs/engine.md and the examples run as they stand."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "use.md").read_text()


def test_the_page_runs_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec("\n".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)), {})
    out = capsys.readouterr().out
    differences = re.findall(r"differs by (?:tensor\()?([-\de.]+)", out)
    assert len(differences) == 2
    assert all(float(number) <= 1e-9 for number in differences)
    assert "agrees at every stage" in " ".join(out.split())
    for file in ("network.onnx", "network.pt2", "network.safetensors", "explained.png"):
        assert (tmp_path / file).stat().st_size > 1000


def test_the_page_on_certificates(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "certificates.md").read_text()
    (code,), (shown,) = (
        re.findall(rf"```{kind}\n(.*?)```", page, flags=re.DOTALL) for kind in ("python", "text")
    )
    exec(code, {})
    lines = capsys.readouterr().out.splitlines()
    checks = [line.split(":")[0] for line in lines if "holds" in line]
    assert checks == [line.split(":")[0] for line in shown.splitlines() if "holds" in line]
    assert len(checks) == 12


def test_the_page_on_the_engine() -> None:
    page = (ROOT / "docs" / "engine.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(code, {})


def test_fine_tuning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Few steps: what it measures about noise is the same as with many, and stands in the page."""
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "fine_tune.py"))["main"](["--steps", "2"])
    out = capsys.readouterr().out
    assert (tmp_path / "fine_tune.png").stat().st_size > 10_000
    assert max(map(len, out.splitlines())) <= 80
    noise, _, training = out.partition("Trained by Adam")
    calm = [float(line.split()[1].rstrip(",")) for line in noise.splitlines()[4:-1]]
    assert len(calm) == 7
    assert calm[1] == calm[0]
    assert calm[-2] < 1.1 * calm[0]
    quoted = " ".join(PAGE.split())
    for line in noise.splitlines()[4:10]:  # those of "yun" hang on the last bits
        assert " ".join(line.split()[:3]) in quoted
    for name in ("gather, float64", "gather, float32", "yun, float64", "yun, float32"):
        assert name in training
        assert name in PAGE
