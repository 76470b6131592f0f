"""A decoder as people write it themselves, from parts that can be replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

WIDTH = 32
VOCABULARY = 100


class Attention(nn.Module):
    """Softmax attention with four heads."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        """allowed: (batch or 1, 1, tokens, tokens) bool."""
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        mixed = self.mix(q, k, v, allowed)
        out: torch.Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out

    def mix(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, allowed: torch.Tensor
    ) -> torch.Tensor:
        scores = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
        out: torch.Tensor = scores.masked_fill(~allowed, torch.finfo(q.dtype).min).softmax(-1) @ v
        return out


class Mlp(nn.Module):
    """Each token by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down(self.up(x).relu())
        return out


class Block(nn.Module):
    """Attention, then what maps each token by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attend = nn.LayerNorm(WIDTH), Attention()
        self.norm2: nn.Module = nn.LayerNorm(WIDTH)
        self.mlp: nn.Module = Mlp()

    def forward(self, x: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.norm(x), allowed)
        mapped: torch.Tensor = self.mlp(self.norm2(x))
        return x + mapped


class Gpt(nn.Module):
    """Ids to logits."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(64, WIDTH)
        self.mix: nn.Module = nn.Identity()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        tokens = ids.shape[1]
        allowed = torch.ones(1, 1, tokens, tokens, dtype=torch.bool).tril()
        return self.body(ids, torch.arange(tokens)[None], allowed)

    def body(self, ids: torch.Tensor, place: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        x = self.mix(self.embed(ids) + self.places(place))
        for block in self.blocks:
            x = block(x, allowed)
        out: torch.Tensor = self.head(x)
        return out


class Encoder(Gpt):
    """The same in both directions, told of padding."""

    def forward(
        self, ids: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        real = torch.ones_like(ids) if attention_mask is None else attention_mask.long()
        place = (real.cumsum(1) - 1).clamp(min=0)
        return self.body(ids, place, real.bool()[:, None, None, :])


class Packed(Gpt):
    """A decoder told which documents its tokens belong to."""

    def forward(self, ids: torch.Tensor, document_ids: torch.Tensor | None = None) -> torch.Tensor:
        documents = torch.zeros_like(ids) if document_ids is None else document_ids
        together = (documents[:, :, None] == documents[:, None, :]).tril()
        return self.body(ids, torch.arange(ids.shape[1])[None], together[:, None])


def seeded(kind: Callable[[], nn.Module]) -> Any:
    """A model or a part of one, always with the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return kind().eval()
