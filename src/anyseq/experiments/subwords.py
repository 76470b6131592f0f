"""Text as numbers: byte pair encoding, trained on the text itself.

Hugging Face tokenizers do the work, on bytes, so that every text has an encoding and nothing is
unknown. Training is deterministic and takes seconds, so nothing is kept between processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from anyseq.errors import InvalidArgument, MissingExtra

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PAD, MASK = 0, 1
"""Ids that no text has."""
OWN = 2
"""How many these are: the ids of texts come after them."""

_BYTES = 256


class Subwords:
    """Ids of texts, OWN, ..., vocab - 1 at most.

    lines: what to train on. vocab: all ids, PAD and MASK among them; a short text may not fill it.
    """

    def __init__(self, lines: Sequence[str], vocab: int) -> None:
        try:
            from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
        except ImportError as problem:
            raise MissingExtra(
                'text needs tokenizers: pip install "anyseq[experiments]"'
            ) from problem
        if vocab < OWN + _BYTES:
            raise InvalidArgument(
                f"vocab={vocab}: expected {OWN + _BYTES} or more, PAD, MASK and every byte"
            )
        self._tokenizer: Tokenizer = Tokenizer(models.BPE())
        self._tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab - OWN,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        self._tokenizer.train_from_iterator(lines, trainer)

    def ids(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of each line."""
        encoded = self._tokenizer.encode_batch_fast(list(lines))
        return [[token + OWN for token in line.ids] for line in encoded]

    def stream(self, text: str) -> torch.Tensor:
        """The ids of a whole text, (tokens,)."""
        lines = self.ids(text.splitlines(keepends=True))
        return torch.tensor([token for line in lines for token in line])

    def text(self, ids: Sequence[int]) -> str:
        """The text of ids, which `ids` gave."""
        return str(self._tokenizer.decode([token - OWN for token in ids]))
