"""`make package`: the sdist and a wheel made from it, in `dist`, tried in new environments.

One environment has what the wheel asks for and no extra; one the oldest numpy that it allows. In
each, tests/smoke.py runs outside of the project's folder, so that only what is packed can be found.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"


def main() -> None:
    wheel = packed()
    torch = pinned("torch")
    oldest = re.search(r'"numpy>=([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    if oldest is None:
        raise SystemExit("pyproject.toml: no numpy>= among the dependencies")
    for others in ([], [f"numpy=={oldest[1]}.*"]):
        with tempfile.TemporaryDirectory() as folder:
            tried(Path(folder), [str(wheel), torch, *others])


def packed() -> Path:
    """The wheel, built from the sdist: what the sdist lacks, the wheel lacks."""
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    sdist = "from setuptools import build_meta; build_meta.build_sdist('dist')"
    run([sys.executable, "-c", sdist], ROOT)
    (archive,) = DIST.glob("*.tar.gz")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    run([*pip, "--wheel-dir", str(DIST), str(archive)], ROOT)
    (wheel,) = DIST.glob("*.whl")
    say(f"{archive.name}, {archive.stat().st_size:,} bytes")
    say(f"{wheel.name}, {wheel.stat().st_size:,} bytes")
    return wheel


def pinned(name: str) -> str:
    """name==version, as the requirements pin it: an unpinned torch is gigabytes."""
    lines = (ROOT / "requirements" / "core.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith(f"{name}=="))


def tried(folder: Path, wanted: list[str]) -> None:
    run([sys.executable, "-m", "venv", str(folder / "venv")], folder)
    python = str(folder / "venv" / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, *wanted], folder)
    shutil.copy(ROOT / "tests" / "smoke.py", folder)
    run([python, "-W", "error", "smoke.py"], folder)
    run([str(folder / "venv" / "bin" / "anyseq"), "--version"], folder)


def run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    if "smoke.py" in command or "--version" in command:
        say(done.stdout.rstrip())


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
