"""Several documents in one row: which token is of which, and where it stands in it."""

from __future__ import annotations

import torch

from anyseq.errors import InvalidArgument


def document_ids_of(cu_seqlens: torch.Tensor, batch: int, tokens: int) -> torch.Tensor:
    """(batch, tokens) the number of each token's document, from where documents begin and the last
    one ends: 0, ..., tokens in ascending order."""
    if cu_seqlens.ndim != 1 or cu_seqlens.dtype.is_floating_point or len(cu_seqlens) < 2:
        raise InvalidArgument(
            f"cu_seqlens of dtype {cu_seqlens.dtype} and shape {tuple(cu_seqlens.shape)}: expected "
            "whole numbers of shape (documents + 1,)"
        )
    if not torch.compiler.is_compiling():
        rises = bool((cu_seqlens.diff() >= 0).all())
        if int(cu_seqlens[0]) != 0 or int(cu_seqlens[-1]) != tokens or not rises:
            raise InvalidArgument(
                f"cu_seqlens={cu_seqlens.tolist()}: expected 0, where each next document begins, "
                f"and at the end the number of tokens, {tokens}"
            )
    index = torch.arange(tokens, device=cu_seqlens.device)
    ids = torch.searchsorted(cu_seqlens.long(), index, right=True)
    return ids.expand(batch, tokens)


def restarted(document_ids: torch.Tensor) -> torch.Tensor:
    """(batch, tokens) positions that begin at 0 in each document, whose tokens stand side by
    side."""
    index = torch.arange(document_ids.shape[1], device=document_ids.device).expand_as(document_ids)
    begins = torch.ones_like(document_ids, dtype=torch.bool)
    begins[:, 1:] = document_ids[:, 1:] != document_ids[:, :-1]
    return index - (index * begins).cummax(1).values


def after_padding(key_mask: torch.Tensor) -> torch.Tensor:
    """(batch, tokens) positions that begin at 0 at the first real token; padding before it is at 0
    too."""
    return (key_mask.long().cumsum(1) - 1).clamp(min=0)
