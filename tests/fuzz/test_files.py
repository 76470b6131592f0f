"""Damaged and forged folders: refused by name, or loaded; and then judged in bounded time."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyseq as aq
from anyseq.errors import AnyseqError
from construct.certified import RESULTS

FILES = 12
SECONDS = 60
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2, 10**12, 2**63, 10**400, 0.5, -0.0, 1e308, "", "x", "sup", [], {},
    [[1]], {"kind": "Window", "radius": 10**18}, "\ud800", ["a"] * 50,
)  # fmt: skip
NAMES = ("identity", "tokens", "adaptive", "wide", "yun", "yun, no order", "sum", "rounds")


@pytest.mark.parametrize("name", NAMES)
def test_what_a_folder_says_is_not_believed(name: str, soak: int, tmp_path: Path) -> None:
    sound = tmp_path / "sound"
    RESULTS[name].save(sound)
    refused = 0
    for number in range(FILES * soak):
        rng = np.random.default_rng([number, *name.encode()])
        folder = tmp_path / str(number)
        shutil.copytree(sound, folder)
        damage(folder, rng)
        start = time.monotonic()
        try:
            held = aq.load(folder).certificate
            assert held is not None, number
            held.verify()
        except AnyseqError:
            refused += 1
        assert time.monotonic() - start < SECONDS, number
        shutil.rmtree(folder)
    assert refused


def damage(folder: Path, rng: np.random.Generator) -> None:
    """Bytes that are other ones, or missing; or facts that are, with hashes that fit."""
    if rng.random() < 0.35:
        file = folder / str(rng.choice(sorted(part.name for part in folder.iterdir())))
        held = bytearray(file.read_bytes())
        for _ in range(rng.integers(1, 4)):
            held[rng.integers(len(held))] = rng.integers(256)
        file.write_bytes(held[: rng.integers(len(held)) if rng.random() < 0.3 else len(held)])
        if rng.random() < 0.7 and file.suffix == ".safetensors":
            about = json.loads((folder / "about.json").read_text())
            about["sha256"][file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
            (folder / "about.json").write_text(json.dumps(about))
        return
    about = json.loads((folder / "about.json").read_text())
    for _ in range(rng.integers(1, 3)):
        inside = about.get("facts")
        place, key = pick(inside if inside and rng.random() < 0.9 else about, rng)
        if rng.random() < 0.15:
            del place[key]
        else:
            place[key] = VALUES[rng.integers(len(VALUES))]
        if not isinstance(about.get("facts"), dict):
            break
    if isinstance(about.get("facts"), dict):
        plain = json.dumps(about["facts"], sort_keys=True)
        about["facts_sha256"] = hashlib.sha256(plain.encode()).hexdigest()
    (folder / "about.json").write_text(json.dumps(about))


def pick(facts: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Some place in nested facts."""
    while True:
        keys = list(facts) if isinstance(facts, dict) else list(range(len(facts)))
        key = keys[rng.integers(len(keys))]
        inner = facts[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.15:
            return facts, key
        facts = inner
