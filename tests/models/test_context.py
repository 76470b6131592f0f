"""The length that a model is read for, and what its head reads."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import BertConfig, BertForSequenceClassification

import anyseq as aq
from anyseq.models import LONGEST, read
from anyseq.models.context import followed_length

TWO: dict[str, Any] = {"num_hidden_layers": 2}
LENGTHS: dict[str, tuple[dict[str, Any], int]] = {
    "declared": ({"model_type": "llama", "max_position_embeddings": 131_072, **TWO}, 131_072),
    "another name": ({"model_type": "gpt2", "n_layer": 2}, 1024),
    "a table with rows for padding": ({"model_type": "roberta", "pad_token_id": 1, **TWO}, 510),
    "nowhere": ({"model_type": "mamba", **TWO}, 16),
    "of the encoder": ({"model_type": "whisper", "encoder_layers": 1, "decoder_layers": 1}, 1500),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_the_length_that_a_model_was_made_for(name: str) -> None:
    config, length = LENGTHS[name]
    reading = read(config)
    assert reading.tokens == length
    assert reading.design is not None
    assert reading.design.tokens == length
    assert not any("read for" in fact.says for fact in reading.facts)


def test_no_more_than_can_be_followed() -> None:
    reading = read({"model_type": "llama", "max_position_embeddings": 1 << 20, **TWO})
    assert reading.tokens == LONGEST
    assert reading.facts[-1].says == (
        "read for 524,288 tokens of its 1,048,576: no more tokens than that can be analysed; give "
        "tokens= for another length"
    )


def test_patterns_that_are_followed_pair_by_pair() -> None:
    reading = read({"model_type": "llama4_text", "num_hidden_layers": 4})
    assert reading.tokens == 1024
    assert reading.facts[-1].says == (
        "read for 1,024 tokens of its 131,072: some pattern depends on more than i - j, and is "
        "analysed pair by pair; give tokens= for another length"
    )
    assert read({"model_type": "big_bird", **TWO}).tokens == 4096  # sparse: all of it


def test_the_length_that_is_followed() -> None:
    assert followed_length(aq.Design(100_000, aq.Causal() & aq.Window(9))) == 100_000
    assert followed_length(aq.Design(100_000, aq.Blocks(8))) == 4096
    assert followed_length(aq.Design(100_000, (aq.Causal(), aq.Blocks(8)))) == 1024
    assert followed_length(aq.Design(600, aq.Blocks(600))) == 600
    assert followed_length(aq.Design(9000, aq.Documents((4500, 4500)))) == 9000  # for 9000 only


READOUTS: dict[str, tuple[str, str, str | int]] = {
    "the last": ("llama", "LlamaForSequenceClassification", "last"),
    "the first": ("bert", "BertForSequenceClassification", 0),
    "all": ("llama", "LlamaForCausalLM", "all"),
    "all of an encoder": ("bert", "BertForTokenClassification", "all"),
    "not sure": ("longformer", "LongformerForSequenceClassification", "all"),
}


@pytest.mark.parametrize("name", READOUTS)
def test_what_a_head_reads(name: str) -> None:
    kind, architecture, readout = READOUTS[name]
    config = {"model_type": kind, "architectures": [architecture], **TWO}
    design = read(config, 8).design
    assert design is not None
    assert design.readout == readout


def test_a_model_is_of_its_own_class() -> None:
    small: dict[str, Any] = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
    model = BertForSequenceClassification(BertConfig(**small))
    design = read(model, 8).design
    assert design is not None
    assert design.readout == 0
