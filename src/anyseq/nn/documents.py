"""Where tokens stand, if not at 0, 1, ...: in documents of one row, and after padding."""

from __future__ import annotations

import torch


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
