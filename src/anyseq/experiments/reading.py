"""A corpus as ids, to draw sequences from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch

from anyseq.experiments.data import Data
from anyseq.experiments.experiment import Batch
from anyseq.experiments.subwords import Subwords
from anyseq.experiments.text import corpus

_HELD_OUT_ROWS = 64  # in a batch
_TEST_SHARE = 0.1  # of the training text's length, at most


class Reading(NamedTuple):
    """Ids of the training text and of the test text, and the test text's characters for each of
    its ids."""

    train: torch.Tensor
    test: torch.Tensor
    characters_per_token: float

    def draw(self, rows: int, length: int, rng: torch.Generator) -> torch.Tensor:
        """(rows, length) from anywhere in the training text."""
        starts = torch.randint(len(self.train) - length + 1, (rows, 1), generator=rng)
        return self.train[starts + torch.arange(length)]

    def test_rows(self, rows: int, length: int, step: int) -> torch.Tensor:
        """(rows, length) at most, from the test text's beginning, `step` ids after each other."""
        return self.test.unfold(0, length, step)[:rows]


@lru_cache(maxsize=1)
def reading(data: Data, characters: int, vocab: int) -> Reading:
    """The corpus of the data, so many characters of it at most, in a vocabulary trained on it."""
    text = corpus(data, characters)
    train, test = text.train[:characters], text.test[: int(_TEST_SHARE * characters)]
    subwords = Subwords(train.splitlines(keepends=True), vocab)
    ids = subwords.stream(test)
    return Reading(subwords.stream(train), ids, len(test) / len(ids))


def in_batches(batch: Batch) -> Sequence[Batch]:
    """Batches of a few rows each."""
    parts = {name: value.split(_HELD_OUT_ROWS) for name, value in batch.items()}
    return [dict(zip(parts, values, strict=True)) for values in zip(*parts.values(), strict=True)]
