"""The data of an experiment: the user's files, checked, or what every machine has.

Without a path a text experiment reads the source text of Python's standard library, so that it
runs on a fresh machine. Nothing is downloaded.
"""

from __future__ import annotations

import gzip
import hashlib
import sysconfig
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from anyseq.errors import FileProblem, InvalidArgument

Sources = Mapping[str, str]
"""Which data was read: name -> SHA-256."""

_PACKAGES = ("asyncio", "collections", "email", "http", "json", "logging", "unittest", "xml")


@dataclass(frozen=True)
class Data:
    """A folder (or none) with the files of an experiment.

    Files are known by the SHA-256 of their content, after decompression for .gz: a truncated or
    edited file is an error, and never silently another experiment.
    """

    folder: Path | None = None

    def __post_init__(self) -> None:
        if self.folder is not None and not self.folder.is_dir():
            raise FileProblem(f"--data {self.folder} is not a folder")

    def within(self, name: str) -> Data:
        """The data of the folder's own folder of that name, if it has one; otherwise the same."""
        if self.folder is not None and (self.folder / name).is_dir():
            return Data(self.folder / name)
        return self

    def read(self, file: str, sha256: str) -> bytes:
        """The content of a file in the folder, decompressed."""
        if self.folder is None:
            raise InvalidArgument(f"--data: expected the folder that holds {file}")
        path = self.folder / file
        try:
            content = path.read_bytes()
            content = gzip.decompress(content) if path.suffix == ".gz" else content
        except (OSError, EOFError, zlib.error) as problem:
            raise FileProblem(f"--data: {str(path)!r} cannot be read: {problem}") from problem
        found = hashlib.sha256(content).hexdigest()
        if found != sha256:
            raise FileProblem(
                f"--data: {str(path)!r} is not the file of this experiment: its content has the "
                f"SHA-256 {found[:12]}..., expected {sha256[:12]}..."
            )
        return content


def check_count(what: str, found: int, expected: int) -> None:
    """So many lines, molecules, sentences, otherwise the file was misread."""
    if found != expected:
        raise FileProblem(f"--data: {found:,} {what}, expected {expected:,}")


def sha256_of(*parts: str | bytes) -> str:
    """The hash of data that is not in a user's file."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode() if isinstance(part, str) else part)
    return found.hexdigest()


def standard_library_text(characters: int) -> str:
    """Source text of Python's standard library, the same on every machine with this Python."""
    root = Path(sysconfig.get_paths()["stdlib"])
    files = sorted(
        file
        for file in root.glob("*.py")
        if not file.name.startswith("_sysconfigdata")  # of the build: another on every machine
    )
    files += [file for name in _PACKAGES for file in sorted((root / name).rglob("*.py"))]
    parts: list[str] = []
    for file in files:
        if sum(map(len, parts)) >= characters:
            break
        parts.append(file.read_text(encoding="utf-8", errors="replace"))
    text = "".join(parts)[:characters]
    if len(text) < characters:
        raise FileProblem(
            f"Python's standard library at {str(root)!r} has {len(text):,} characters of source, "
            f"expected {characters:,}; give --data a folder with text"
        )
    return text
