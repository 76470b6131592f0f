"""Configs read as designs, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig, BertConfig, LlamaConfig, PreTrainedConfig

import anyseq as aq
from anyseq.errors import AnyseqError, FileProblem, InvalidArgument, UnsupportedModel
from anyseq.hf import read_config
from anyseq.patterns import Blocks, Coarse
from hf.zoo import NO_DESIGN, ZOO, build

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")

NARROW = aq.Causal() & aq.Window(2)
EXPECTED: dict[str, tuple[aq.Position, tuple[aq.Pattern, ...]]] = {
    "bert": (aq.Absolute(), (aq.Full(),)),
    "roberta": (aq.Absolute(), (aq.Full(),)),
    "electra": (aq.Absolute(), (aq.Full(),)),
    "gpt2": (aq.Absolute(), (aq.Causal(),)),
    "llama": (aq.Rotary(), (aq.Causal(),)),
    "mistral": (aq.Rotary(), (NARROW,)),
    "mistral-1": (aq.Rotary(), (Blocks(1),)),
    "mixtral": (aq.Rotary(1e6), (aq.Causal(),)),
    "qwen2": (aq.Rotary(), (aq.Causal(), NARROW)),
    "gemma2": (aq.Rotary(), (aq.Causal() & aq.Window(3), aq.Causal())),
    "gemma3": (aq.Rotary(1e6), (NARROW,)),
    "gemma3-both-ways": (aq.Rotary(1e6), (aq.Window(1),)),
    "gpt_oss": (aq.Rotary(150_000), (aq.Causal() & aq.Window(3), aq.Causal())),
    "t5": (aq.T5Bias(32, 128), (aq.Full(),)),
    "deberta-absolute": (aq.Absolute(), (aq.Full(),)),
    "deberta-no-terms": (aq.NoPosition(), (aq.Full(),)),
    "deberta-nowhere": (aq.NoPosition(), (aq.Full(),)),
    "bert-no-layers": (aq.Absolute(), (Blocks(1),)),
    "llama-no-layers": (aq.Rotary(), (Blocks(1),)),
    "roformer": (aq.Rotary(), (aq.Full(),)),
    "bloom": (aq.ALiBi(), (aq.Causal(),)),
    "mpt": (aq.ALiBi(), (aq.Causal(),)),
    "longformer": (aq.Absolute(), (aq.Window(2),)),
    "big_bird": (aq.Absolute(), (Coarse(2, aq.Window(1) | aq.Global((0, -1))),)),
    "big_bird-one-layer": (aq.Absolute(), (Coarse(2, aq.Window(1) | aq.Global((0, -1))),)),
}


def test_the_table_is_complete() -> None:
    assert EXPECTED.keys() | NO_DESIGN == ZOO.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_the_design_of_every_family(name: str) -> None:
    model, tokens = build(name)
    design = read_config(model.config, tokens).design
    position, cycle = EXPECTED[name]
    depth = 1 if "one-layer" in name or "no-layers" in name else 2
    assert design == aq.Design(
        tokens, cycle, position, sinks=name == "gpt_oss", depth=depth, final_norm=None
    )


@pytest.mark.parametrize("name", sorted(NO_DESIGN))
def test_what_no_design_describes(name: str) -> None:
    reading = read_config(build(name)[0].config)
    assert reading.design is None
    assert reading.unsure


@pytest.mark.parametrize("name", ZOO)
def test_a_file_says_the_same(name: str, tmp_path: Path) -> None:
    config = build(name)[0].config
    config.save_pretrained(tmp_path)
    reading = read_config(config, 8)
    file = tmp_path / "config.json"
    assert read_config(file, 8) == read_config(str(tmp_path), 8) == reading
    assert read_config(json.loads(file.read_text()), 8) == reading


def test_what_a_reading_says() -> None:
    reading = read_config(LlamaConfig(num_hidden_layers=4))
    assert reading.subject == "Llama (LlamaConfig), 4 layers"
    assert reading.tokens == 16
    assert "positions: rotary, base 10,000" in reading.facts
    assert any("BOS" in fact for fact in reading.facts)
    assert reading.unsure == ("a last RMS norm with learned scale",)


def test_wide_windows_are_said_to_hide_nothing() -> None:
    idle = "among 16 tokens causal & window(4095) hides nothing"
    assert idle in read_config({"model_type": "mistral"}).facts
    assert not any("hides" in one for one in read_config({"model_type": "mistral"}, 4097).facts)


def test_the_table_of_positions_limits_the_length() -> None:
    assert read_config(BertConfig(max_position_embeddings=5)).tokens == 5
    with pytest.raises(InvalidArgument, match="tokens=6: BertConfig has positions for 5"):
        read_config(BertConfig(max_position_embeddings=5), 6)
    roberta = {"model_type": "roberta", "max_position_embeddings": 10, "pad_token_id": 1}
    assert read_config(roberta, 8).tokens == 8
    with pytest.raises(InvalidArgument, match="8 tokens"):
        read_config(roberta, 9)


def test_an_empty_rotation_for_all_beside_those_of_each_kind_is_not_read() -> None:
    """transformers 5.8 writes it where not all kinds of layers occur; the model ignores it."""
    config = build("gemma3")[0].config
    expected = read_config(config, 9)
    config.rope_parameters |= {"rope_type": "default", "rope_theta": None}
    assert read_config(config, 9) == expected
    assert expected.design is not None
    assert expected.design.position == aq.Rotary(1e6)


def test_a_decoder_made_of_bert_is_causal() -> None:
    design = read_config(BertConfig(is_decoder=True)).design
    assert design is not None
    assert design.cycle == (aq.Causal(),)


def test_short_sequences_of_big_bird_are_full() -> None:
    design = read_config({"model_type": "big_bird"}, 704).design
    assert design is not None
    assert design.cycle == (aq.Full(),)


def test_the_text_part_of_a_model_of_pictures() -> None:
    reading = read_config({"model_type": "gemma3"})
    assert reading.subject.startswith("the text part of ")


class Foreign(LlamaConfig):
    """As a config that came with code of its own."""


REFUSED: dict[str, tuple[Any, type[AnyseqError], str]] = {
    "unknown type": ({"model_type": "nobody"}, UnsupportedModel, "model_type='nobody': expected"),
    "no type": ({}, UnsupportedModel, "model_type=None"),
    "pictures": ({"model_type": "vit"}, UnsupportedModel, "model_type='vit'"),
    "remote code": (
        {"model_type": "nobody", "auto_map": {"AutoConfig": "x.Y"}},
        UnsupportedModel,
        "never run",
    ),
    "foreign class": (Foreign(), UnsupportedModel, "not from transformers"),
    "a wrong value": (
        {"model_type": "bert", "num_hidden_layers": "two"},
        InvalidArgument,
        "cannot be read.*num_hidden_layers",
    ),
    "a switch": ({"model_type": "llama", "is_causal": False}, UnsupportedModel, "is_causal=False"),
    "no window": (
        {"model_type": "mistral", "sliding_window": 0},
        UnsupportedModel,
        "MistralConfig with sliding_window=0: expected a whole number, 1 or more",
    ),
    "a negative window": (
        {"model_type": "gpt_oss", "sliding_window": -2},
        UnsupportedModel,
        "sliding_window=-2",
    ),
    "an odd window": (
        {"model_type": "longformer", "attention_window": 5},
        UnsupportedModel,
        "attention_window=5: expected an even number",
    ),
    "two windows": (
        {"model_type": "longformer", "attention_window": [4, 4]},
        UnsupportedModel,
        "one for each of the 12 layers",
    ),
    "no config": (3, InvalidArgument, "config=int"),
    "no file": ("nowhere/config.json", FileProblem, "nowhere"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_are_one_line(case: str) -> None:
    config, error, words = REFUSED[case]
    with pytest.raises(error, match=words) as caught:
        read_config(config)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("tokens", [0, -1, 2.5, True])
def test_lengths_that_are_none(tokens: Any) -> None:
    with pytest.raises(InvalidArgument, match="tokens="):
        read_config({"model_type": "bert"}, tokens)


def test_a_file_that_is_no_config(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text("[1, 2")
    with pytest.raises(FileProblem, match=r"config\.json"):
        read_config(file)
    file.write_text("[1, 2]")
    with pytest.raises(FileProblem, match="holds a list"):
        read_config(file)


def test_remote_code_of_a_known_type_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The built-in class is read, and nothing of the folder is run."""
    (tmp_path / "evil.py").write_text("raise SystemExit('remote code was run')\n")
    described = {"model_type": "llama", "auto_map": {"AutoConfig": "evil.Config"}}
    (tmp_path / "config.json").write_text(json.dumps(described))

    def never(*args: object, **kwargs: object) -> PreTrainedConfig:
        raise AssertionError("AutoConfig may run remote code")

    monkeypatch.setattr(AutoConfig, "from_pretrained", never)
    assert read_config(tmp_path).facts[0] == "auto_map is ignored: transformers' own llama is read"
