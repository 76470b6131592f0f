"""A recurrence whose states are all computed at once."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import pad

from anyseq.base import at_least_one
from anyseq.nn.cache import LayerCache
from anyseq.nn.mixers import without_padding

_LONGEST = 6.0  # σ(6): features that at the start remember some 400 tokens; σ(0): two


class GatedRecurrence(nn.Module):
    """h_i = a_i ∘ h_(i-1) + (1 - a_i) ∘ x_i W_V from h_(-1) = 0, then h_i W_O: a linear recurrence
    for each feature by itself, with a_i = σ(x_i W_A + b_A) (minGRU; RG-LRU and diagonal state
    spaces are its kin).

    Padding leaves the state as it is. A cache remembers the states.
    """

    causal = True

    def __init__(
        self,
        dim: int,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.dim = at_least_one("dim", dim)
        self.gate_proj = nn.Linear(dim, dim, dtype=dtype, device=device)
        with torch.no_grad():
            self.gate_proj.bias.copy_(torch.linspace(0.0, _LONGEST, dim))
        self.v_proj = nn.Linear(dim, dim, bias=False, dtype=dtype, device=device)
        self.o_proj = nn.Linear(dim, dim, bias=False, dtype=dtype, device=device)

    def forward(
        self,
        x: torch.Tensor,
        *,
        key_mask: torch.Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> torch.Tensor:
        """(batch, tokens, dim) -> (batch, tokens, dim)."""
        x = without_padding(x, key_mask, cache)
        gate = self.gate_proj(x)
        keep, new = gate.sigmoid(), (-gate).sigmoid() * self.v_proj(x)
        if key_mask is not None:
            padding = ~key_mask[..., None]
            keep, new = keep.masked_fill(padding, 1.0), new.masked_fill(padding, 0.0)
        states, kept = scanned(keep, new)
        if cache is not None:
            before = cache.last()
            if before is not None:
                states = states + kept * before[0]
            cache.append(states)
        out: torch.Tensor = self.o_proj(states)
        return out


def scanned(keep: torch.Tensor, new: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """h_i = keep_i h_(i-1) + new_i from h_(-1) = 0, and keep_0 ⋯ keep_i, which is how much of
    another start would be left; (batch, n, features) each.

    In log2 n steps: before the step s, entry i has the sum over the last s tokens up to i and the
    product of their keep; tokens i-s has those of the s tokens before. Nothing is divided and keep
    lies in [0, 1], so that nothing overflows.
    """
    step = 1
    while step < new.shape[1]:
        new = new + keep * pad(new[:, :-step], (0, 0, step, 0))
        keep = keep * pad(keep[:, :-step], (0, 0, step, 0), value=1.0)
        step *= 2
    return new, keep
