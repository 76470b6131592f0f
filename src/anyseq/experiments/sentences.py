"""Sentences of two classes: SST-2 from the user's disk, or lines of two of Python's packages."""

from __future__ import annotations

import sysconfig
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import torch

from anyseq.errors import FileProblem
from anyseq.experiments.data import Data, Sources, check_count, sha256_of
from anyseq.experiments.subwords import PAD, Subwords

CLASSES = 2
_SST2 = {  # file -> SHA-256 of the text, sentences
    "train.tsv.gz": ("8621df47b79e9b3fa010405ef4dd506cbf483319cf851f20f2b6773f61d387b5", 67_349),
    "dev.tsv.gz": ("54a9c12c77e402fc14d6a66a506f24d999f596b0176eb777c972cccc2f9cc4b0", 872),
}
_PACKAGES = ("asyncio", "email")
_SHORTEST = 20  # characters of a line that may tell where it comes from
_TEST_EVERY = 10  # of the lines of a package

Labelled = list[tuple[str, int]]


class Parts(NamedTuple):
    """To train on, to be measured on, and what they come from."""

    train: Labelled
    test: Labelled
    sources: Sources


class Sentences(NamedTuple):
    """ids: (rows, tokens), with PAD after the end; labels: (rows,)."""

    ids: torch.Tensor
    labels: torch.Tensor


@lru_cache(maxsize=1)
def sentences(data: Data, vocab: int, tokens: int) -> tuple[Sentences, Sentences]:
    """To train on and to test, in a vocabulary trained on the former; no more than so many tokens
    of each."""
    train, test, _ = labelled(data)
    subwords = Subwords([line for line, _ in train], vocab)

    def encoded(rows: Labelled) -> Sentences:
        ids = torch.full((len(rows), tokens), PAD)
        for row, found in zip(ids, subwords.ids([line for line, _ in rows]), strict=True):
            row[: len(found)] = torch.tensor(found[:tokens])
        return Sentences(ids, torch.tensor([label for _, label in rows]))

    return encoded(train), encoded(test)


@lru_cache(maxsize=1)
def labelled(data: Data) -> Parts:
    """SST-2 if the data has a folder."""
    return _lines() if data.folder is None else _sst2(data.within("glue_sst2"))


def _sst2(data: Data) -> Parts:
    """1 for praise; the part that GLUE calls dev is the test."""
    parts: list[Labelled] = []
    for file, (sha256, count) in _SST2.items():
        rows = data.read(file, sha256).decode().splitlines()[1:]
        check_count(f"sentences in {file}", len(rows), count)
        pairs = (row.split("\t") for row in rows)
        parts.append([(line.strip(), int(label)) for line, label in pairs])
    train, test = parts
    sources = {f"SST-2, {file}": sha256 for file, (sha256, _) in _SST2.items()}
    return Parts(train, test, sources)


def _lines() -> Parts:
    """Which of two packages does this line come from? Equally many of both, none in both."""
    root = Path(sysconfig.get_paths()["stdlib"])
    found = [_distinct(root / name) for name in _PACKAGES]
    own = [
        [line for line in lines if line not in other]
        for lines, other in zip(found, map(set, reversed(found)), strict=True)
    ]
    count = min(map(len, own))
    if count == 0:
        raise FileProblem(
            f"Python's standard library at {str(root)!r} has no source of {', '.join(_PACKAGES)}; "
            "give --data a folder with SST-2"
        )
    train: Labelled = []
    test: Labelled = []
    for place in range(count):
        part = test if place % _TEST_EVERY == 0 else train
        part += [(lines[place], label) for label, lines in enumerate(own)]
    text = "\n".join(line for line, _ in train + test)
    return Parts(train, test, {"lines of Python's standard library": sha256_of(text)})


def _distinct(package: Path) -> list[str]:
    """Its lines of some length, each once."""
    texts = (file.read_text(encoding="utf-8") for file in sorted(package.rglob("*.py")))
    lines = (line.strip() for text in texts for line in text.splitlines())
    return list(dict.fromkeys(line for line in lines if len(line) >= _SHORTEST))
