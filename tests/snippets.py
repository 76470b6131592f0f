"""Code of pages, run as a reader would."""

import subprocess
import sys
from pathlib import Path


def output_of(code: str, folder: Path) -> str:
    """What a block prints, run by itself in a folder; warnings are errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
