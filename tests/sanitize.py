"""`make sanitize`: the tests of the native kernel, compiled with a sanitizer of the compiler's.

Python itself is not, so the sanitizer's library is loaded first. Leaks are not looked for: Python
and torch keep what they have until the end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIBRARIES = {"address": "libasan.so", "thread": "libtsan.so"}
TESTS = tuple(f"tests/ops/test_{name}.py" for name in ("native", "native_threads", "backends"))
# OpenMP's barriers are of its own making, which ThreadSanitizer cannot see: threads of our own.
RUN = """
import sys, pytest
from anyseq.ops.native import library
library._FOUND = library._FOUND._replace(openmp=0)
sys.exit(pytest.main(sys.argv[1:]))
"""
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0",
    "TSAN_OPTIONS": "ignore_noninstrumented_modules=1 exitcode=66",
    "OMP_NUM_THREADS": "2",
}


def main(kind: str) -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    module = project["tool"]["setuptools"]["ext-modules"][0]
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    native = ROOT / "src" / "anyseq" / "ops" / "native"
    compiled = [native / f"_{level}{suffix}" for level in ("base", "v3", "v4")]
    with tempfile.TemporaryDirectory() as folder:
        kept = {path: Path(folder) / path.name for path in compiled if path.exists()}
        for path, copy in kept.items():
            copy.write_bytes(path.read_bytes())
        try:
            checked = Path(folder) / "checked.so"
            flags = [flag for flag in module["extra-compile-args"] if flag != "-O3"]
            command = ["g++", "-shared", "-fPIC", "-g", "-O1", f"-fsanitize={kind}", *flags]
            subprocess.run([*command, *module["sources"], "-o", str(checked)], cwd=ROOT, check=True)
            for path in compiled:
                path.write_bytes(checked.read_bytes())
            return tested(kind)
        finally:
            for path, copy in kept.items():
                path.write_bytes(copy.read_bytes())


def tested(kind: str) -> int:
    # with the C++ library, whose exceptions the sanitizer passes on
    found = [
        subprocess.run(
            ["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in (LIBRARIES[kind], "libstdc++.so.6")
    ]
    environment = os.environ | OPTIONS | {"LD_PRELOAD": " ".join(found)}
    command = [sys.executable, "-c", RUN, "-q", "-x", "-s", "-p", "no:cacheprovider", *TESTS]
    if kind == "thread":  # which cannot follow a forked process
        command += ["-k", "not fork and not loader"]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
