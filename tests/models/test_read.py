"""Configs read as designs, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, BertConfig, LlamaConfig, PreTrainedConfig

import anyseq as aq
from anyseq.errors import AnyseqError, FileProblem, InvalidArgument, UnsupportedModel
from anyseq.models import read
from anyseq.patterns import Coarse
from hf.zoo import build

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")

NARROW = aq.Causal() & aq.Window(2)
EXPECTED: dict[str, tuple[aq.Position, tuple[aq.Pattern, ...]]] = {
    "bert": (aq.Absolute(), (aq.Full(),)),
    "roberta": (aq.Absolute(), (aq.Full(),)),
    "electra": (aq.Absolute(), (aq.Full(),)),
    "gpt2": (aq.Absolute(), (aq.Causal(),)),
    "llama": (aq.Rotary(), (aq.Causal(),)),
    "mistral": (aq.Rotary(), (NARROW,)),
    "mistral-1": (aq.Rotary(), (aq.Window(0),)),
    "mixtral": (aq.Rotary(1e6), (aq.Causal(),)),
    "qwen2": (aq.Rotary(), (aq.Causal(), NARROW)),
    "gemma2": (aq.Rotary(), (aq.Causal() & aq.Window(3), aq.Causal())),
    "gemma3": (aq.Rotary(), (NARROW,)),
    "gemma3-both-ways": (aq.Rotary(), (aq.Window(1),)),
    "gpt_oss": (aq.Rotary(150_000), (aq.Causal() & aq.Window(3), aq.Causal())),
    "t5": (aq.T5Bias(32, 128), (aq.Full(),)),
    "deberta-absolute": (aq.Absolute(), (aq.Full(),)),
    "deberta-no-terms": (aq.NoPosition(), (aq.Full(),)),
    "deberta-nowhere": (aq.NoPosition(), (aq.Full(),)),
    "roformer": (aq.Rotary(), (aq.Full(),)),
    "bloom": (aq.ALiBi(), (aq.Causal(),)),
    "mpt": (aq.ALiBi(), (aq.Causal(),)),
    "longformer": (aq.Absolute(), (aq.Window(2),)),
    "big_bird": (aq.Absolute(), (Coarse(2, aq.Window(1) | aq.Global((0, -1))),)),
    "big_bird-one-layer": (aq.Absolute(), (Coarse(2, aq.Window(1) | aq.Global((0, -1))),)),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_design_of_tiny_models(name: str) -> None:
    model, tokens = build(name)
    design = read(model.config, tokens).design
    position, cycle = EXPECTED[name]
    assert design is not None
    assert (design.tokens, design.cycle, design.position) == (tokens, cycle, position)
    assert design.depth == (1 if "one-layer" in name else 2)
    assert design.sinks is (name == "gpt_oss")
    assert design.domain == "ids"


def test_a_state_space_is_a_recurrence_without_feed_forward() -> None:
    design = read(build("mamba")[0].config).design
    assert design is not None
    assert set(design.layer_cycle) == {aq.Layer(mixer=aq.Recurrence(), feedforward=False)}


def test_scores_that_no_position_describes() -> None:
    reading = read(build("deberta")[0].config)
    assert reading.design is None
    assert any("mix offset and content" in why for why in reading.unknown)


@pytest.mark.parametrize("name", ["bert-no-layers", "llama-no-layers"])
def test_a_model_without_layers(name: str) -> None:
    with pytest.raises(UnsupportedModel, match="no part of its model moves content"):
        read(build(name)[0].config)


@pytest.mark.parametrize("name", ["bert", "gemma2", "gpt_oss", "t5", "mamba"])
def test_a_file_says_the_same(name: str, tmp_path: Path) -> None:
    config = build(name)[0].config
    config.save_pretrained(tmp_path)
    reading = read(config, 8)
    file = tmp_path / "config.json"
    assert read(file, 8) == read(str(tmp_path), 8) == reading
    assert read(json.loads(file.read_text()), 8) == reading


def test_what_a_reading_says() -> None:
    reading = read(LlamaConfig(num_hidden_layers=4))
    assert reading.subject == "Llama (LlamaConfig), 4 layers"
    assert reading.tokens == 2048  # max_position_embeddings
    says = [fact.says for fact in reading.facts]
    assert "positions: rotary, base 10,000" in says
    assert any("BOS" in one for one in says)
    assert reading.unknown == ()
    assert reading.assumed == ()  # a person compared this family with its source
    assert all(len(line) <= 80 for line in str(reading).splitlines())


def test_what_was_only_seen_is_assumed() -> None:
    reading = read({"model_type": "ctrl", "n_layer": 2})
    assert any("fixed vector per position" in one for one in reading.assumed)
    verdict = aq.check({"model_type": "ctrl", "n_layer": 2}, target="causal")
    assert verdict.assumes == reading.assumed
    assert verdict.universal is None


def test_wide_windows_are_said_to_hide_nothing() -> None:
    idle = "among 16 tokens causal & window(4095) hides nothing"
    wide = {"model_type": "mistral", "num_hidden_layers": 2}
    assert idle in map(str, read(wide, 16).facts)
    assert not any("hides" in str(one) for one in read(wide, 4097).facts)


def test_old_names_warn() -> None:
    import anyseq.hf

    with pytest.warns(DeprecationWarning, match=r"anyseq\.hf\.read_config is anyseq\.read now"):
        assert anyseq.hf.read_config is read


def test_the_table_of_positions_limits_the_length() -> None:
    assert read(BertConfig(max_position_embeddings=5)).tokens == 5
    with pytest.raises(InvalidArgument, match="tokens=6: BertConfig has positions for 5"):
        read(BertConfig(max_position_embeddings=5), 6)
    roberta = {"model_type": "roberta", "max_position_embeddings": 10, "pad_token_id": 1}
    assert read(roberta, 8).tokens == 8
    with pytest.raises(InvalidArgument, match="8 tokens"):
        read(roberta, 9)


def test_a_decoder_made_of_bert_is_causal() -> None:
    design = read(BertConfig(is_decoder=True, num_hidden_layers=2)).design
    assert design is not None
    assert design.cycle == (aq.Causal(),)


def test_short_sequences_of_big_bird_are_full() -> None:
    design = read({"model_type": "big_bird"}, 704).design
    assert design is not None
    assert design.cycle == (aq.Full(),)


def test_the_text_part_of_a_model_of_pictures() -> None:
    reading = read({"model_type": "gemma3"})
    assert reading.subject.startswith("the text part of ")


class Foreign(LlamaConfig):
    """As a config that came with code of its own."""


REFUSED: dict[str, tuple[Any, type[AnyseqError], str]] = {
    "unknown type": ({"model_type": "nobody"}, UnsupportedModel, "model_type='nobody': transf"),
    "no type": ({}, UnsupportedModel, "model_type=None"),
    "several texts": ({"model_type": "musicgen"}, AnyseqError, "."),
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
        "even value",
    ),
    "two windows": (
        {"model_type": "longformer", "attention_window": [4, 4]},
        UnsupportedModel,
        "no small copy can be built",
    ),
    "windows of several widths": (
        {"model_type": "longformer", "num_hidden_layers": 2, "attention_window": [64, 128]},
        UnsupportedModel,
        "expected one width for all layers",
    ),
    "too many layers": (
        {"model_type": "llama", "num_hidden_layers": 10**9},
        UnsupportedModel,
        "num_hidden_layers=1000000000: expected a whole number from 0 to 512",
    ),
    "no config": (3, InvalidArgument, "what=3: expected"),
    "no file": ("nowhere/config.json", FileProblem, "nowhere"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_are_one_line(case: str) -> None:
    config, error, words = REFUSED[case]
    with pytest.raises(error, match=words) as caught:
        read(config)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("tokens", [0, -1, 2.5, True])
def test_lengths_that_are_none(tokens: Any) -> None:
    with pytest.raises(InvalidArgument, match="tokens="):
        read({"model_type": "bert"}, tokens)


def test_a_file_that_is_no_config(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text("[1, 2")
    with pytest.raises(FileProblem, match=r"config\.json"):
        read(file)
    file.write_text("[1, 2]")
    with pytest.raises(FileProblem, match="holds a list"):
        read(file)


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
    first = read(tmp_path).facts[0]
    assert str(first) == "auto_map is ignored: transformers' own llama is read"


def test_threads_are_as_before() -> None:
    before = torch.get_num_threads()
    aq.read(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 5)
    assert torch.get_num_threads() == before
