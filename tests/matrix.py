"""`make matrix`: other versions of torch and transformers, each in an environment of its own.

Every environment is made in a temporary folder and deleted again: the ordinary wheels of torch are
gigabytes. Prints a table of what passed, which docs/engine.md holds; what failed is in `build`.
Versions of torch as arguments: only these.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
VERSIONS = (("2.8.0", "5.8.0"), ("2.12.1", "5.22.2"), ("2.14.1", "5.23.0"), ("2.15.0", "5.23.0"))
TESTS = ("tests/ops", "tests/nn", "tests/hf", "tests/patterns")


def main(only: list[str]) -> int:
    rows, worst = [], 0
    for torch, transformers in VERSIONS:
        if only and torch not in only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            summary, code = measured(Path(folder), torch, transformers)
        rows.append(f"| {torch} | {transformers} | {summary} |")
        sys.stdout.write(f"{rows[-1]}\n")
        sys.stdout.flush()
        worst = max(worst, code)
    head = ["| torch | transformers | tests |", "|---|---|---|"]
    sys.stdout.write("\n".join(["", *head, *rows, ""]))
    return worst


def measured(folder: Path, torch: str, transformers: str) -> tuple[str, int]:
    """What pytest says at its end, and its exit code."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    python = str(folder / "venv" / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pinned = (ROOT / "requirements" / "full.txt").read_text()
    pinned += (ROOT / "requirements" / "core.txt").read_text()
    others = [line for line in pinned.splitlines() if not re.match(r"(torch|transformers)==", line)]
    own = [f"torch=={torch}", f"transformers=={transformers}"]
    # the pinned versions, but for what torch and transformers want otherwise
    (folder / "others.txt").write_text("\n".join(line for line in others if "==" in line))
    subprocess.run([*pip, "--no-deps", "-r", str(folder / "others.txt")], check=True)
    subprocess.run([*pip, *own, "setuptools", "wheel"], check=True)
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", str(ROOT)], check=True)
    # warnings of other versions are not ours
    command = [python, "-m", "pytest", "-q", "-n2", "-p", "no:cacheprovider", *TESTS]
    command += ["-o", "filterwarnings=default"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build" / f"matrix-{torch}.log").write_text(done.stdout + done.stderr)
    lines = done.stdout.strip().splitlines()
    return (lines[-1].strip("= ") if lines else "did not run"), done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
