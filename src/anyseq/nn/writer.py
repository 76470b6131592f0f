"""A model that generates: the ids so far, and the logits of the next one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from anyseq.base import at_least_one
from anyseq.errors import InvalidArgument
from anyseq.nn.attention import Attention
from anyseq.nn.cache import Cache
from anyseq.nn.documents import after_padding
from anyseq.nn.mixers import SeparableConv
from anyseq.nn.past import LastReader, counts_offsets_only, keeps_its_past, last_reader
from anyseq.nn.recurrence import GatedRecurrence
from anyseq.patterns import Full, Pattern, as_pattern

if TYPE_CHECKING:
    from anyseq.nn.transformer import Transformer


def is_one_of(ids: torch.Tensor, stop_ids: Sequence[int]) -> torch.Tensor:
    """Which of the ids end a sequence."""
    return torch.isin(ids, torch.tensor(list(stop_ids), device=ids.device, dtype=ids.dtype))


class Writer:
    """A model, the ids so far, and the logits of the next one, (batch, vocab).

    prompt: (batch, n) with padding on the left.
    """

    def __init__(
        self,
        model: Transformer,
        prompt: torch.Tensor,
        tokens: int,
        key_mask: torch.Tensor | None,
        cache: bool,
    ) -> None:
        _check(model, prompt, tokens, key_mask)
        self.model = model
        self.prompt, self.key_mask = _flush_right(prompt, key_mask)
        self.cache = make_cache(model, padded=self.key_mask is not None) if cache else None
        self.ids = self.prompt[:, :0]

    def start(self) -> torch.Tensor:
        """After the prompt."""
        return self._read(self.prompt, self.key_mask)

    def go_on(self, new: torch.Tensor) -> torch.Tensor:
        """After one id more in each row, (batch,)."""
        real = None if self.key_mask is None else torch.ones_like(new, dtype=torch.bool)[:, None]
        return self._read(new[:, None], real)

    def take(self, rows: torch.Tensor) -> None:
        """The batch becomes these rows of it."""
        self.ids, self.prompt = self.ids[rows], self.prompt[rows]
        self.key_mask = None if self.key_mask is None else self.key_mask[rows]
        if self.cache is not None:
            self.cache.take(rows)

    @torch.no_grad()
    def _read(self, new: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
        before = self.ids.shape[1]
        self.ids = torch.cat([self.ids, new], dim=1)
        if self.key_mask is not None and real is not None and before:
            self.key_mask = torch.cat([self.key_mask, real], dim=1)
        positions = None if self.key_mask is None else after_padding(self.key_mask)
        unseen, told = self.ids, self.key_mask
        if self.cache is not None:
            unseen, told = new, real
            positions = None if positions is None else positions[:, before:]
        with evaluating(self.model):
            states = self.model.states(unseen, key_mask=told, positions=positions, cache=self.cache)
            return self.model.read_out(states[:, -1:])[:, 0]


def make_cache(model: Transformer, *, padded: bool = False) -> Cache:
    """A cache that forgets what no later token can attend to.

    padded: whether rows begin at different places.
    """
    n = model.design.size
    readers: list[LastReader | None] = []
    for block in model.blocks:
        pattern = _pattern(block.mixer)
        if pattern is not None and not keeps_its_past(pattern):
            raise InvalidArgument(
                f"cache=True: rows of pattern {pattern!r} may change as the sequence grows, so old "
                "keys and values cannot be kept; give cache=False"
            )
        readers.append(_last_reader(block.mixer, pattern, n, padded))
    return Cache(len(model.blocks), n, readers)


def _last_reader(mixer: Any, pattern: Pattern | None, n: int, padded: bool) -> LastReader | None:
    if isinstance(mixer, GatedRecurrence):
        return lambda keys: keys + 1
    if isinstance(mixer, SeparableConv):
        return lambda keys: keys + mixer.width - 1
    if pattern is None or not isinstance(mixer, Attention):
        return None
    if not counts_offsets_only(pattern) and (padded or mixer.position.needs_weights):
        return None  # gaps between keys would differ from row to row, or not be allowed
    return last_reader(pattern, n)


def _pattern(mixer: Any) -> Pattern | None:
    """The pattern of the mixer of a block; None if it has none."""
    if isinstance(mixer, Attention):
        return Full() if mixer.pattern is None else as_pattern(mixer.pattern)
    return mixer.sight.pattern if hasattr(mixer, "sight") else None


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout; afterwards the model is as it was."""
    if not model.training:
        yield
        return
    model.eval()
    try:
        yield
    finally:
        model.train()


def _flush_right(
    prompt: torch.Tensor, key_mask: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Real tokens at the end of each row, in their order; None for a mask that hides nothing."""
    if key_mask is None or bool(key_mask.all()):
        return prompt, None
    order = key_mask.long().argsort(dim=1, stable=True)
    return prompt.gather(1, order), key_mask.gather(1, order)


def _check(
    model: Transformer, prompt: torch.Tensor, tokens: int, key_mask: torch.Tensor | None
) -> None:
    if not model.causal or model.vocab is None or model.head is None:
        raise InvalidArgument(
            f"generate: the model has causal={model.causal}, vocab={model.vocab}; only a causal "
            "model of ids with a head can generate: Transformer(..., causal=True, vocab=...)"
        )
    if prompt.ndim != 2 or prompt.shape[1] == 0:
        raise InvalidArgument(
            f"prompt of shape {tuple(prompt.shape)}: expected (batch, tokens), one token or more"
        )
    total = prompt.shape[1] + at_least_one("tokens", tokens)
    if total > model.design.tokens:
        raise InvalidArgument(
            f"tokens={tokens} after a prompt of {prompt.shape[1]} make {total}, the design has "
            f"tokens={model.design.tokens}"
        )
    if key_mask is None:
        return
    if key_mask.dtype != torch.bool or key_mask.shape != prompt.shape:
        raise InvalidArgument(
            f"key_mask of dtype {key_mask.dtype} and shape {tuple(key_mask.shape)}: expected bool "
            f"of shape (batch, tokens) = {tuple(prompt.shape)}, True = a real token"
        )
    if not bool(key_mask.any(1).all()):
        raise InvalidArgument("key_mask: a row has no real token; expected one or more in each")
