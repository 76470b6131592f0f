"""What a Transformer gets besides its tokens, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from anyseq.errors import InvalidArgument
from anyseq.nn.attention import Attention
from anyseq.nn.cache import Cache

if TYPE_CHECKING:
    from anyseq.nn.transformer import Transformer


def check_told(
    model: Transformer,
    x: torch.Tensor,
    key_mask: torch.Tensor | None,
    document_ids: torch.Tensor | None,
    positions: torch.Tensor | None,
    cache: Cache | None,
) -> None:
    """Check that all fit together: x (batch, tokens, dim), and the arguments about its tokens."""
    bos = model.design.bos
    before = 0 if cache is None or cache.length == 0 else cache.length - bos
    n = before + x.shape[1]
    if not 1 <= n <= model.design.tokens:
        raise InvalidArgument(
            f"x has {n} tokens, the design has tokens={model.design.tokens}; expected from 1 to "
            "that many, or a Design with more"
        )
    for pattern in model.design.cycle:
        if pattern.natural_length not in (None, n + bos):
            raise InvalidArgument(
                f"x has {n} tokens{' and BOS' if bos else ''}, but pattern {pattern!r} is for "
                f"{pattern.natural_length} exactly"
            )
    told = {"key_mask": key_mask, "document_ids": document_ids, "positions": positions}
    for name, given in told.items():
        if given is not None and given.shape != x.shape[:2]:
            raise InvalidArgument(
                f"{name} of shape {tuple(given.shape)}: expected (batch, tokens) = "
                f"{tuple(x.shape[:2])}"
            )
    if document_ids is not None:
        _check_documents(model, cache)
    if positions is not None and bos:
        raise InvalidArgument(
            "positions: the design has bos=True, and BOS stands before the first column; "
            "expected sequences without padding on the left, or BOS among the ids"
        )


def _check_documents(model: Transformer, cache: Cache | None) -> None:
    if cache is not None:
        raise InvalidArgument("document_ids: not together with cache")
    if model.design.bos:
        raise InvalidArgument(
            "document_ids: the design has bos=True, and only the first document would begin "
            "with it; put BOS among the ids of each document instead"
        )
    for number, block in enumerate(model.blocks):
        if not isinstance(block.mixer, Attention):
            raise InvalidArgument(
                f"document_ids: blocks[{number}] is {type(block.mixer).__name__}, which would "
                "mix documents; expected attention in every block, or one document a row"
            )
