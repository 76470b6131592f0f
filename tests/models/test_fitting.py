"""Torch modules: what they take is found, or asked for in one line."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from transformers import CLIPConfig, CLIPModel

import anyseq as aq
from anyseq.errors import InvalidArgument, UnsupportedModel
from anyseq.models import as_function


def mixing() -> nn.Module:
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)


class Table(nn.Module):
    """A learned vector per position, for so many tokens and no others."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.randn(tokens, 8))
        self.mix = mixing()

    def forward(self, x: torch.Tensor) -> Any:
        return self.mix(x + self.places)


class Words(nn.Module):
    """Ids in, logits out, with or without positions."""

    def __init__(self, longest: int | None = None) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 8)
        self.places = None if longest is None else nn.Embedding(longest, 8)
        self.mix = mixing()

    def forward(self, ids: torch.Tensor) -> Any:
        x = self.words(ids)
        if self.places is not None:
            x = x + self.places(torch.arange(ids.shape[1]).expand_as(ids))
        return self.mix(x)


class Misleading(nn.Module):
    """Its `dim` is not what it takes."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.dim, self.layer = 99, layer

    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(x)


def test_a_length_is_found() -> None:
    torch.manual_seed(0)
    assert aq.check(Table(32)).subject == "Table, 32 tokens"
    assert aq.check(Words(8)).subject == "Words, 8 tokens"
    assert aq.check(nn.Conv1d(5, 5, 1)).subject == "Conv1d, 5 tokens"
    with pytest.raises(InvalidArgument, match=r"tokens=16: Table cannot.*give tokens=32") as caught:
        aq.check(Table(32), tokens=16)
    assert "\n" not in str(caught.value)


def test_ids_are_replaced_by_numbers() -> None:
    torch.manual_seed(0)
    stuck = aq.check(Words(), tokens=6)
    assert stuck.witness is not None
    assert stuck.witness.name == "W1"
    assert "no obstruction found" in aq.check(Words(16), tokens=6).reason
    words = Words(16)
    before = len(words.words._forward_hooks)
    function = as_function(words)
    x = torch.rand(2, 5, 1, dtype=torch.float64)
    assert not torch.equal(function(x), function(1 - x))
    assert len(words.words._forward_hooks) == before


def test_recurrent_layers_give_tuples() -> None:
    torch.manual_seed(0)
    verdict = aq.check(nn.LSTM(6, 5, batch_first=True), target="causal", tokens=5)
    assert "no obstruction found" in verdict.reason
    with pytest.raises(InvalidArgument, match="batch first"):
        aq.check(nn.LSTM(6, 5), tokens=5)


def test_features_are_guessed_from_weights() -> None:
    assert as_function(Misleading(nn.GRU(6, 5, batch_first=True))).features == 6
    assert as_function(Misleading(nn.Linear(3, 7))).features == 3


@pytest.mark.parametrize(
    "module", [nn.MultiheadAttention(4, 2), nn.Bilinear(3, 3, 2), nn.EmbeddingBag(9, 4)]
)
def test_what_cannot_be_found_is_asked_for(module: nn.Module) -> None:
    with pytest.raises(InvalidArgument, match="give a module that maps floats") as caught:
        aq.check(module, tokens=4)
    assert "\n" not in str(caught.value)


def test_a_model_without_input_embeddings() -> None:
    """transformers raises NotImplementedError where it does not know them."""
    sizes: dict[str, Any] = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2}
    sizes |= {"num_hidden_layers": 1}
    config = CLIPConfig(text_config=sizes, vision_config=sizes, projection_dim=8)
    with pytest.raises(UnsupportedModel, match="CLIPModel has no input embeddings") as caught:
        aq.check(CLIPModel(config), tokens=4)
    assert "\n" not in str(caught.value)
