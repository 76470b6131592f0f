"""Torch modules of one's own, read by running them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import anyseq as aq
from anyseq.errors import InvalidArgument


class Block(nn.Module):
    """A block in one piece, as many write them."""

    def __init__(self, window: int | None) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.window = window

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape
        parts = self.qkv(self.before(x)).chunk(3, -1)
        q, k, v = (part.view(batch, tokens, 2, 8).transpose(1, 2) for part in parts)
        if self.window is None:
            mixed = scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            offset = torch.arange(tokens)[:, None] - torch.arange(tokens)
            mask = (offset >= 0) & (offset < self.window)
            mixed = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, 16))
        out: torch.Tensor = x + self.mlp(self.after(x))
        return out


class Decoder(nn.Module):
    """A small GPT: ids to logits; windows in every other block."""

    def __init__(self, learned: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 16)
        self.places = nn.Embedding(64, 16) if learned else None
        self.blocks = nn.ModuleList(Block(3 if one % 2 else None) for one in range(4))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 30)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        if self.places is not None:
            x = x + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        out: torch.Tensor = self.head(self.norm(x))
        return out


@pytest.mark.parametrize("learned", [False, True])
def test_blocks_in_one_piece(learned: bool) -> None:
    reading = aq.read(Decoder(learned), 12)
    design = reading.design
    assert design is not None
    near = aq.Causal() & aq.Window(2)
    assert design.layer_cycle == (aq.Layer(aq.Causal()), aq.Layer(near))
    assert design.input_position == (aq.Absolute() if learned else aq.NoPosition())
    assert (design.depth, design.block_norm, design.final_norm) == (4, "pre", "learned-layernorm")
    assert {fact.source for fact in reading.facts} == {"seen"}


def test_a_verdict_on_a_module_says_what_it_assumes() -> None:
    verdict = aq.check(Decoder(False), target="causal", tokens=8)
    assert verdict.universal is None  # seen, not proved
    assert "identical tokens stay identical" in verdict.reason
    assert "layers 1, 3: causal" in verdict.assumes
    assert "assumes what was seen" in str(verdict)
    assert verdict.to_dict()["assumes"] == list(verdict.assumes)
    assert aq.check(Decoder(True), target="causal", tokens=8).universal is None


def test_a_torch_encoder() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)
    design = aq.read(nn.TransformerEncoder(layer, 3, enable_nested_tensor=False), 7).design
    assert design == aq.Design(7, position=aq.NoPosition(), depth=3, block_norm="pre")


def test_a_recurrence_of_torch() -> None:
    design = aq.read(nn.GRU(3, 5, batch_first=True)).design
    assert design is not None
    assert design.layer_cycle == (aq.Layer(mixer=aq.Recurrence(), feedforward=False),)


class Pictures(nn.Module):
    """Patches of a picture, a token of its own, learned positions."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.first = nn.Parameter(torch.zeros(1, 1, 8))
        self.places = nn.Parameter(torch.zeros(1, 10, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        x = self.patches(pictures).flatten(2).mT
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.places
        out: torch.Tensor = self.encoder(x)[:, 0]
        return out


def test_what_takes_something_else_is_read_by_an_example() -> None:
    reading = aq.read(Pictures(), example=torch.randn(2, 3, 12, 12))
    assert reading.tokens == 10
    assert reading.design == aq.Design(10, position=aq.Absolute(), depth=2, block_norm="post")


@pytest.mark.parametrize("example", [3, torch.tensor(1.0), (torch.zeros(2, 3), "x")])
def test_examples_that_are_none(example: Any) -> None:
    with pytest.raises(InvalidArgument, match="example"):
        aq.read(Pictures(), example=example)


def test_an_example_is_for_modules_only() -> None:
    with pytest.raises(InvalidArgument, match="example: given"):
        aq.read({"model_type": "llama"}, example=torch.zeros(1, 3))


def test_nothing_is_left_behind() -> None:
    module = Decoder(True)
    before = {name: one.clone() for name, one in module.named_parameters()}
    state = torch.random.get_rng_state()
    aq.read(module, 9)
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(before[name], one) for name, one in module.named_parameters())
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    assert module.training


class Attend(nn.Module):
    """x + attention, with peculiarities that a look has to notice or to call unknown."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.places = nn.Parameter(torch.randn(32, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape
        places = self.places[:tokens]
        q, k, v = self.qkv(x).chunk(3, -1)
        v = v + places if self.kind == "in the values" else v
        q, k, v = (part.view(batch, tokens, 2, 4).transpose(1, 2) for part in (q, k, v))
        scores = q @ k.mT
        index = torch.arange(tokens)
        if self.kind == "by head":
            later = (index[:, None] < index).expand(2, -1, -1) & torch.tensor([1, 0])[:, None, None]
            scores = scores.masked_fill(later.bool(), -torch.inf)
        if self.kind == "strictly causal":
            scores = scores.masked_fill(index[:, None] <= index, -1e4)
            scores = torch.where(index[:, None] == 0, -torch.inf, scores)
        weights = scores.softmax(-1).nan_to_num()
        mixed = (weights @ v).transpose(1, 2).reshape(batch, tokens, 8)
        out: torch.Tensor = x + self.out(mixed)
        return out


class Twice(nn.Module):
    """Two layers; positions are added before one of them."""

    features = 8

    def __init__(self, before: int | None, kind: str = "") -> None:
        super().__init__()
        self.layers = nn.ModuleList(Attend(kind) for _ in range(2))
        self.places = nn.Parameter(torch.randn(32, 8))
        self.before = before

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, layer in enumerate(self.layers):
            x = layer(x + self.places[: x.shape[1]] if number == self.before else x)
        return x


def test_positions_that_a_module_adds_to_numbers() -> None:
    design = aq.read(Twice(0), 6).design
    assert design is not None
    assert design.input_position == aq.Absolute()


def test_positions_that_enter_later() -> None:
    reading = aq.read(Twice(1), 6)
    assert reading.design is None
    assert reading.unknown == ("positions enter before layer 2, not at the input",)


@pytest.mark.parametrize("kind", ["in the values", "by head", "strictly causal"])
def test_what_is_not_described_is_not_read_as_something_else(kind: str) -> None:
    reading = aq.read(Twice(None, kind), 7)
    assert reading.design is None
    assert reading.unknown


@pytest.mark.parametrize("tokens", [2, 3, 4, 5])
def test_short_sequences(tokens: int) -> None:
    design = aq.read(Decoder(True), tokens).design
    assert design is not None
    assert design.input_position == aq.Absolute()


def test_gradients_are_on_whatever_the_caller_does() -> None:
    expected = aq.read(Decoder(True), 8)
    with torch.no_grad():
        assert aq.read(Decoder(True), 8) == expected
    with torch.inference_mode():
        assert aq.read({"model_type": "bert", "num_hidden_layers": 1}).design is not None
