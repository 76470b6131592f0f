"""A folder of tensors and facts: safetensors + JSON, written whole or not at all.

    folder/
        about.json           format, version, facts, and the SHA-256 of every other file
        <name>.safetensors   one file per group of tensors

Writing goes to a temporary sibling that is renamed at the end, when all of it is on the disk.
Reading executes nothing and checks format, version and hashes before a tensor is handed out.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from anyseq.errors import FileProblem, InvalidArgument

_ABOUT = "about.json"

Tensors = Mapping[str, torch.Tensor]


def write_folder(
    folder: str | Path,
    *,
    format: str,
    version: int,
    facts: Mapping[str, Any],
    groups: Mapping[str, Tensors],
) -> None:
    """Write `facts` and the groups of tensors as a new folder."""
    target = check_new(folder)
    draft = None
    try:
        draft = Path(tempfile.mkdtemp(prefix=".anyseq-", dir=target.parent))
        hashes = {}
        for name, tensors in groups.items():
            file = draft / f"{name}.safetensors"
            save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, file)
            hashes[file.name] = _sha256(file)
            _to_disk(file)
        about = {
            "format": format,
            "version": version,
            "sha256": hashes,
            "facts_sha256": json_sha256(facts),
            "facts": facts,
        }
        (draft / _ABOUT).write_text(json.dumps(about, indent=2, allow_nan=False) + "\n")
        os.chmod(draft, 0o755)
        _to_disk(draft / _ABOUT)
        _to_disk(draft)
        os.rename(draft, target)
        _to_disk(target.parent)
    except (OSError, SafetensorError) as problem:
        raise FileProblem(f"folder={str(target)!r} cannot be written: {problem}") from problem
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)


def write_text(file: Path, text: str) -> None:
    """Replace a text file, whole or not at all."""
    draft = file.with_name(f".{file.name}.{os.getpid()}.draft")  # another process may write it, too
    try:
        draft.write_text(text)
        _to_disk(draft)
        os.replace(draft, file)
    except OSError as problem:
        raise FileProblem(f"{str(file)!r} cannot be written: {problem}") from problem
    finally:
        draft.unlink(missing_ok=True)


def check_new(path: str | Path, name: str = "folder") -> Path:
    """The path of a folder (or of what `name` says) that does not exist yet, in one that does."""
    target = _path(path, name)
    try:
        exists, parent = target.exists(), target.parent.is_dir()
    except (OSError, ValueError) as problem:
        raise FileProblem(f"{name}={str(target)!r} cannot be made: {problem}") from problem
    if exists:
        raise FileProblem(f"{name}={str(target)!r} exists already; choose a new name or remove it")
    if not parent:
        raise FileProblem(
            f"{name}={str(target)!r}: {str(target.parent)!r} is not a folder; make it first"
        )
    return target


def read_folder(
    folder: str | Path, *, format: str, version: int
) -> tuple[dict[str, Any], dict[str, dict[str, torch.Tensor]]]:
    """The facts and groups of tensors of a folder that `write_folder` made."""
    source = _path(folder)
    about = _read_about(source, format, version)
    groups = {}
    for name, expected in about["sha256"].items():
        file = source / name
        if Path(name).name != name or file.suffix != ".safetensors":
            raise FileProblem(
                f"{str(source / _ABOUT)!r} lists {name!r}, which is not a file of this format"
            )
        if not file.is_file():
            raise FileProblem(f"{str(file)!r} is missing; save the result again")
        found = _sha256(file)
        if found != expected:
            raise FileProblem(
                f"{str(file)!r} is damaged or was changed: its SHA-256 is {found[:12]}..., "
                f"{_ABOUT} says {str(expected)[:12]}...; save the result again"
            )
        try:
            # copied to where torch would put them: some processors round sums otherwise in rows
            # that begin elsewhere
            groups[file.stem] = {key: part.clone() for key, part in load_file(file).items()}
        except SafetensorError as problem:
            raise FileProblem(f"{str(file)!r} is not a safetensors file: {problem}") from problem
    return about["facts"], groups


def _read_about(source: Path, format: str, version: int) -> dict[str, Any]:
    file = source / _ABOUT
    try:
        there = file.is_file()
    except (OSError, ValueError) as problem:
        raise FileProblem(f"folder={str(source)!r} cannot be read: {problem}") from problem
    if not there:
        missing = (
            f"{source} holds no {_ABOUT}" if source.is_dir() else f"folder not found: {source}"
        )
        raise FileProblem(f"{missing}; expected a saved {format}")
    try:
        about = json.loads(file.read_text(), parse_constant=_no_number)
    except (OSError, ValueError, RecursionError) as problem:
        raise FileProblem(f"{str(file)!r} is not valid JSON: {problem}") from problem
    if not isinstance(about, dict) or about.get("format") != format:
        found = about.get("format") if isinstance(about, dict) else about
        raise FileProblem(f"{str(file)!r} has format {found!r}, expected {format!r}")
    found = about.get("version")
    if isinstance(found, bool) or not isinstance(found, int) or not 1 <= found <= version:
        raise FileProblem(
            f"{str(file)!r} has version {found!r} of {format}; this anyseq reads up to version "
            f"{version}: install a newer anyseq"
        )
    if not isinstance(about.get("sha256"), dict) or not isinstance(about.get("facts"), dict):
        raise FileProblem(f"{str(file)!r} lacks its 'sha256' or 'facts'; save the result again")
    try:
        intact = about.get("facts_sha256") == json_sha256(about["facts"])
    except ValueError:  # a number such as 1e999, which we never wrote
        intact = False
    if not intact:
        raise FileProblem(f"{str(file)!r} is damaged or was changed; save the result again")
    return about


def _path(path: str | Path, name: str = "folder") -> Path:
    if not isinstance(path, (str, Path)):
        raise InvalidArgument(f"{name}={path!r}: expected a path")
    if "\0" in str(path):
        raise FileProblem(f"{name}={str(path)!r} cannot be made: a name has no null character")
    return Path(path)


def _to_disk(path: Path) -> None:
    """Wait until a file, or the list of a folder's files, is on the disk and not on its way."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def json_sha256(facts: Mapping[str, Any]) -> str:
    """The SHA-256 of facts as JSON, their names in order."""
    plain = json.dumps(facts, sort_keys=True, allow_nan=False)
    return hashlib.sha256(plain.encode()).hexdigest()


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
