"""Torch modules of one's own that attend as they are declared to, and anyseq's own layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import anyseq as aq
from models.faults.families import GROUPED, SIZES, Make, seeded, tiny

CAUSAL = aq.Causal()


class Decoder(nn.Module):
    """As nanoGPT: embeddings of ids and positions, blocks before a norm, a head."""

    def __init__(self, window: int = 64) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(80, 32), nn.Embedding(64, 32)
        self.blocks = nn.ModuleList(DecoderBlock(window) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 80, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        out: torch.Tensor = self.head(self.norm(x))
        return out


class DecoderBlock(nn.Module):
    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = window
        self.first, self.second = nn.LayerNorm(32), nn.LayerNorm(32)
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.mlp = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.first(x)).unflatten(2, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        mask &= ~mask.tril(-self.window)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        out: torch.Tensor = x + self.mlp(self.second(x))
        return out


class Padded(nn.Module):
    """torch's encoder behind a mask of what is padding."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(80, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)

    def forward(
        self, ids: torch.Tensor, src_key_padding_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        out: torch.Tensor = self.layer(self.tokens(ids), src_key_padding_mask=src_key_padding_mask)
        return out


class Packed(nn.Module):
    """A decoder that keeps documents apart."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(80, 32)
        self.mixes = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, ids: torch.Tensor, document_ids: torch.Tensor | None = None) -> torch.Tensor:
        x, count = self.tokens(ids), ids.shape[1]
        hidden = torch.ones(count, count, dtype=torch.bool).triu(1).expand(len(ids), -1, -1)
        if document_ids is not None:
            hidden = hidden | (document_ids[:, :, None] != document_ids[:, None])
        out: torch.Tensor = x + self.mixes(x, x, x, attn_mask=hidden.repeat_interleave(4, 0))[0]
        return out


class CausalConvolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mixes = nn.Conv1d(16, 16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.mixes(nn.functional.pad(x.transpose(1, 2), (2, 0)))
        return x + out.transpose(1, 2)


class Recurrent(nn.Module):
    def __init__(self, kind: Callable[..., nn.Module], both: bool = False) -> None:
        super().__init__()
        self.tokens = nn.Embedding(80, 16)
        self.mixes = kind(16, 16, batch_first=True, bidirectional=both)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.mixes(self.tokens(ids))[0]
        return out


class Mixer(nn.Module):
    """An MLP over the tokens, of a fixed number of them."""

    def __init__(self) -> None:
        super().__init__()
        self.across, self.along = nn.Linear(16, 16), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.across(x.transpose(1, 2).relu()).transpose(1, 2)
        out: torch.Tensor = x + self.along(x)
        return out


def own(design: aq.Design, **settings: Any) -> Make:
    """Our own layers."""
    return lambda: (
        seeded(lambda: aq.nn.Transformer(design, **{"dim": 16, "depth": 2, "heads": 2} | settings)),
        None,
    )


def declared(make: Callable[[], nn.Module], what: Any) -> Make:
    return lambda: (seeded(make).eval(), what)


def encoder(**settings: Any) -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, **settings)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def local(**settings: Any) -> nn.Module:
    from local_attention.transformer import LocalMHA

    mixer: nn.Module = LocalMHA(dim=16, window_size=5, dim_head=8, heads=2, **settings)
    return mixer


def local_transformer() -> nn.Module:
    from local_attention import LocalTransformer

    model: nn.Module = LocalTransformer(
        num_tokens=80, max_seq_len=64, dim=16, depth=2, heads=2, dim_head=8,
        local_attn_window_size=5, num_residual_streams=1,
    )  # fmt: skip
    return model


def ours(kind: str, sizes: dict[str, Any], pattern: Any = None) -> Make:
    """A transformers model that attends by anyseq; with a pattern, that is what it declares."""
    return lambda: (aq.hf.use(tiny(kind, sizes), pattern).eval(), pattern)


OWN: dict[str, Make] = {
    "own, full": own(aq.Design(tokens=12)),
    "own, causal": own(aq.Design(tokens=32, patterns=CAUSAL, position=aq.Rotary()), vocab=80),
    "own, window": own(aq.Design(tokens=32, patterns=CAUSAL & aq.Window(3), position=aq.ALiBi())),
    "own, strided in turn": own(aq.Design(tokens=32, patterns=aq.Strided(4).split())),
    "own, star": own(aq.Design(tokens=24, patterns=aq.Star(2), position=aq.Shaw(4))),
    "own, URPE": own(aq.Design(tokens=16, position=aq.URPE())),
    "own, T5's bias": own(aq.Design(tokens=40, position=aq.T5Bias())),
    "own, heads apart": own(
        aq.Design(tokens=24, patterns=aq.PerHead(aq.Window(1), aq.Global((0, 5))))
    ),
    "own, BigBird": own(aq.Design(tokens=24, patterns=aq.BigBird(4, 1, 1, 1, 0))),
    "own, dilated": own(aq.Design(tokens=24, patterns=aq.Dilated(2, 3))),
    "own, grid": own(
        aq.Design(tokens=25, patterns=aq.Neighbourhood((5, 5), 1), position=aq.GridBias((5, 5)))
    ),
    "own, shifted windows": own(
        aq.Design(
            tokens=16,
            patterns=(aq.ShiftedWindows((4, 4), 2), aq.ShiftedWindows((4, 4), 2, 1)),
        )
    ),
    "own, mixers": own(
        aq.Design(
            tokens=24,
            layers=(
                aq.Layer(mixer=aq.Convolution(3)),
                aq.Layer(pattern=aq.Window(2), position=aq.Rotary()),
                aq.Layer(mixer=aq.Recurrence()),
                aq.Layer(pattern=CAUSAL, mixer=aq.LinearAttention()),
            ),
        ),
        depth=4,
    ),
    "own, sinks and sparsemax": own(
        aq.Design(tokens=20, patterns=CAUSAL, sinks=True, prob_map="sparsemax"),
    ),
    "own, after use": ours("LlamaForCausalLM", GROUPED),
    "own, after use with a window": ours("LlamaForCausalLM", GROUPED, CAUSAL & aq.Window(3)),
    "own, in an encoder": ours("BertForMaskedLM", SIZES),
}
PLAIN: dict[str, Make] = {
    "torch's encoder": declared(encoder, aq.Full()),
    "torch's encoder, norm first": declared(lambda: encoder(norm_first=True), aq.Full()),
    "nanoGPT": declared(Decoder, CAUSAL),
    "nanoGPT, window": declared(lambda: Decoder(5), CAUSAL & aq.Window(4)),
    "padding mask": declared(Padded, aq.Full()),
    "documents": declared(Packed, CAUSAL),
    "causal convolution": declared(CausalConvolution, CAUSAL & aq.Window(2)),
    "LSTM": declared(lambda: Recurrent(nn.LSTM), CAUSAL),
    "GRU": declared(lambda: Recurrent(nn.GRU), CAUSAL),
    "LSTM, both ways": declared(lambda: Recurrent(nn.LSTM, True), aq.Full()),
    "MLP over tokens": declared(Mixer, aq.Full()),
    "local attention": declared(lambda: local(causal=True), CAUSAL & aq.Window(5)),
    "local transformer": declared(local_transformer, CAUSAL & aq.Window(5)),
}
MODULES = OWN | PLAIN
