"""A folder of tensors and facts: safetensors + JSON, written whole or not at all.

    folder/
        about.json           format, version, facts, and the SHA-256 of every other file
        <name>.safetensors   one file per group of tensors

Writing goes to a temporary sibling that is renamed at the end. Reading executes nothing and checks
format, version and hashes before a tensor is handed out.
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

from anyseq.errors import FileProblem

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
    target = Path(folder)
    if target.exists():
        raise FileProblem(f"folder={str(target)!r} exists already; choose a new name or remove it")
    if not target.parent.is_dir():
        raise FileProblem(f"folder={str(target)!r}: {str(target.parent)!r} is not a folder")
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        hashes = {}
        for name, tensors in groups.items():
            file = draft / f"{name}.safetensors"
            save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, file)
            hashes[file.name] = _sha256(file)
        about = {"format": format, "version": version, "sha256": hashes, "facts": facts}
        (draft / _ABOUT).write_text(json.dumps(about, indent=2, allow_nan=False) + "\n")
        os.chmod(draft, 0o755)
        os.rename(draft, target)
    except OSError as problem:
        raise FileProblem(f"folder={str(target)!r} cannot be written: {problem}") from problem
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def read_folder(
    folder: str | Path, *, format: str, version: int
) -> tuple[dict[str, Any], dict[str, dict[str, torch.Tensor]]]:
    """The facts and groups of tensors of a folder that `write_folder` made."""
    source = Path(folder)
    about = _read_about(source, format, version)
    groups = {}
    for name, expected in about["sha256"].items():
        file = source / name
        if Path(name).name != name or file.suffix != ".safetensors":
            raise FileProblem(f"{str(source / _ABOUT)!r} lists {name!r}, which is no file of ours")
        if not file.is_file():
            raise FileProblem(f"{str(file)!r} is missing; save the result again")
        found = _sha256(file)
        if found != expected:
            raise FileProblem(
                f"{str(file)!r} is damaged or was changed: its SHA-256 is {found[:12]}..., "
                f"{_ABOUT} says {str(expected)[:12]}...; save the result again"
            )
        try:
            groups[file.stem] = load_file(file)
        except SafetensorError as problem:
            raise FileProblem(f"{str(file)!r} is not a safetensors file: {problem}") from problem
    return about["facts"], groups


def _read_about(source: Path, format: str, version: int) -> dict[str, Any]:
    file = source / _ABOUT
    if not file.is_file():
        raise FileProblem(f"folder={str(source)!r} holds no {_ABOUT}; expected a saved {format}")
    try:
        about = json.loads(file.read_text())
    except (UnicodeDecodeError, json.JSONDecodeError) as problem:
        raise FileProblem(f"{str(file)!r} is not valid JSON: {problem}") from problem
    if not isinstance(about, dict) or about.get("format") != format:
        found = about.get("format") if isinstance(about, dict) else about
        raise FileProblem(f"{str(file)!r} has format {found!r}, expected {format!r}")
    found = about.get("version")
    if not isinstance(found, int) or found > version:
        raise FileProblem(
            f"{str(file)!r} has version {found!r} of {format}; this anyseq reads up to version "
            f"{version}: install a newer anyseq"
        )
    if not isinstance(about.get("sha256"), dict) or not isinstance(about.get("facts"), dict):
        raise FileProblem(f"{str(file)!r} lacks its 'sha256' or 'facts'; save the result again")
    return about


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
