"""Saved folders, changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyseq as aq
from anyseq.construct import Approximation
from anyseq.construct.results.certificate import Certificate


def tamper(folder: Path, place: tuple[Any, ...], value: object) -> None:
    """Change a fact and make its hash fit."""
    about = json.loads((folder / "about.json").read_text())
    inner = about["facts"]
    for key in place[:-1]:
        inner = inner[key]
    assert inner[place[-1]] != value
    inner[place[-1]] = value
    facts = json.dumps(about["facts"], sort_keys=True)
    about["facts_sha256"] = hashlib.sha256(facts.encode()).hexdigest()
    (folder / "about.json").write_text(json.dumps(about))


def bind(folder: Path) -> None:
    """Make the hashes in the certificate fit what the folder holds now."""
    loaded = aq.load(folder)
    assert loaded.certificate is not None
    again = Certificate.of(loaded.certificate.claim, loaded)
    tamper(folder, ("certificate",), again.to_dict())


def unnoticed(
    result: Approximation, edits: Iterable[tuple[tuple[Any, ...], object]], folder: Path
) -> list[tuple[Any, ...]]:
    """Those of the edits, each of a saved result with the hash of its facts, after which the result
    is loaded and verified as if nothing had been."""
    missed = []
    for number, (place, value) in enumerate(edits):
        result.save(folder / str(number))
        tamper(folder / str(number), place, value)
        held = aq.load(folder / str(number)).certificate
        assert held is not None
        if held.verify():
            missed.append(place)
    return missed
