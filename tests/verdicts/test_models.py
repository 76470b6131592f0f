"""Verdicts on configs, Hugging Face models and torch modules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertModel,
    Gemma3nTextConfig,
    LlamaConfig,
    LlamaModel,
    MistralConfig,
    MistralForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

import anyseq as aq
from anyseq.errors import InvalidArgument, UnsupportedModel
from anyseq.models import as_function, read
from anyseq.verdicts.models import _as_contained
from hf.zoo import ZOO, build

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")

STUCK = {"t5", "deberta", "roformer", "llama", "mistral", "mistral-1", "mixtral", "qwen2", "gemma2"}
STUCK |= {"gemma3", "gemma3-both-ways", "bloom", "mpt", "deberta-no-terms", "deberta-nowhere"}
UNREACHED = {"longformer", "big_bird-one-layer", "bert-no-layers", "llama-no-layers"}


def rules(verdict: aq.Verdict) -> set[str]:
    return {finding.rule for finding in verdict.findings}


@pytest.mark.parametrize("name", ZOO)
def test_every_family(name: str) -> None:
    """Sup norm, causal target: False where identical tokens stay identical or a window is too
    narrow, with a witness that holds on the model; never True, since all end with a norm."""
    model, tokens = build(name)
    verdict = aq.check(model, target="causal", tokens=tokens)
    blocked = name in STUCK | UNREACHED
    described = name != "deberta" and "no-layers" not in name
    assert verdict.universal is (False if blocked and described else None)
    assert "description" not in rules(verdict)
    function = as_function(model)
    if blocked:
        assert verdict.witness is not None
        assert verdict.witness.replay(function) >= verdict.witness.bound - 1e-3
    else:
        assert "no obstruction found" in verdict.reason
    everything = verdict.ask("sup", "all")
    if described and not blocked:
        causal = name in {"gpt2", "gpt_oss", "mamba"}
        assert everything.universal is (False if causal else None)
    lp = verdict.ask("lp", "all")
    assert lp.universal is not True
    if lp.witness is not None:
        assert lp.witness.replay(function) >= lp.witness.bound - 1e-3


@pytest.mark.parametrize("name", ["llama", "bert", "gpt2", "deberta", "mamba"])
def test_configs_are_judged_by_their_design(name: str) -> None:
    config = build(name)[0].config
    verdict = aq.check(config, target="causal", tokens=8)
    expected = {"llama": False, "bert": True, "gpt2": True}
    assert verdict.universal is expected.get(name)
    assert not any("probe" in rule for rule in rules(verdict))
    if name == "deberta":
        assert verdict.reason == read(config).unknown[0]
    if name in ("bert", "gpt2"):
        assert verdict.certificate is not None
        assert verdict.certificate.verify()
    if name == "mamba":
        assert "no feed-forward layers" in verdict.reason


def test_the_window_of_a_config() -> None:
    """Two layers that see 3 tokens each carry a token 4 places: 5 tokens meet, 6 do not."""
    config = {"model_type": "longformer", "num_hidden_layers": 2, "attention_window": 4}
    assert aq.check(config, tokens=5).universal is True
    verdict = aq.check(config, tokens=6)
    assert verdict.universal is False
    assert verdict.witness is not None
    assert verdict.witness.name == "W6"


@pytest.mark.parametrize("norm", ["sup", "lp"])
def test_a_transformer_has_its_design(norm: str) -> None:
    design = aq.Design(6, position=aq.URPE())
    model = aq.nn.Transformer(design, dim=8, depth=3, heads=2, norm="none")
    verdict = aq.check(model, norm=norm)
    assert verdict.universal is None
    assert "its design is universal" in verdict.reason
    assert "here it is 8" in verdict.reason
    normed = aq.nn.Transformer(design, dim=8, depth=3, heads=2)
    assert "its design is universal" in aq.check(normed, norm=norm).reason


def test_a_transformer_of_words_has_ids() -> None:
    design = aq.Design(6, position=aq.URPE())
    words = aq.nn.Transformer(design, dim=8, depth=3, heads=2, norm="none", vocab=11)
    verdict = aq.check(words)
    assert verdict.design is not None
    assert verdict.design.domain == "ids"
    assert "its design is universal" in verdict.reason


def test_layer_norms_without_feed_forward_are_not_affine() -> None:
    design = aq.Design(6, position=aq.NoPosition(), feedforward=False)
    assert aq.check(design).universal is False
    model = aq.nn.Transformer(design, dim=8, depth=3, heads=2)
    verdict = aq.check(model, target="equivariant")
    assert verdict.universal is None
    assert "no feed-forward layers" in verdict.reason


def test_a_causal_transformer() -> None:
    model = aq.nn.Transformer(aq.Design(6), dim=8, depth=2, causal=True, norm="none")
    own = aq.check(model)
    assert own.target == "causal"
    assert "its design is universal" in own.reason
    assert own.headline == (
        "Not known at its own width of 8. Yes at some width, for every causal function."
    )
    verdict = aq.check(model, target="all")
    assert verdict.universal is False
    assert verdict.witness is not None
    assert verdict.witness.name == "W5"
    assert "its design is universal" in aq.check(model, target="causal", tokens=4).reason
    with pytest.raises(InvalidArgument, match="tokens=7"):
        aq.check(model, tokens=7)


@pytest.mark.parametrize("causal", [False, True])
def test_mixers_that_are_not_attention(causal: bool) -> None:
    layers = [aq.Layer(mixer=aq.Convolution(3)), aq.Layer(aq.Window(1), mixer="average")]
    design = aq.Design(6, layers=layers)
    verdict = aq.check(aq.nn.Transformer(design, dim=8, depth=2, causal=causal), target="causal")
    assert verdict.universal is False
    assert verdict.witness is not None
    assert verdict.witness.name == "W6"


def test_a_layer_that_was_replaced_is_only_probed() -> None:
    model = aq.nn.Transformer(aq.Design(6), dim=8, depth=2)
    model.blocks[1].mixer = aq.nn.BilinearProjection(8, 6)
    verdict = aq.check(model)
    assert verdict.universal is None
    assert "blocks[1] is BilinearProjection, not what its design says" in verdict.reason
    assert "it could not be read: blocks[1] is BilinearProjection" in " ".join(str(verdict).split())


def test_a_torch_layer_commutes_with_permutations() -> None:
    """By its design, which was only seen: the verdict says so."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    for norm, name in (("sup", "W1"), ("lp", "W2")):
        verdict = aq.check(layer, norm=norm, tokens=5)
        assert verdict.universal is None
        assert "seen only, not proved" in verdict.reason
        assert "full" in verdict.assumes
        assert verdict.witness is not None
        assert verdict.witness.name == name
        assert verdict.witness.replay(as_function(layer)) >= verdict.witness.bound - 1e-12
    assert aq.check(layer, target="equivariant", tokens=5).universal is None
    table = aq.check(layer, tokens=5).table()
    assert table.splitlines()[2].split() == ["all", "unknown", "unknown"]


class Circular(nn.Module):
    """Attention without positions and, in the same module, a convolution around a circle: on
    identical tokens nothing of it is seen."""

    features = 8

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.near = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed = self.attention(x, x, x, need_weights=False)[0]
        out: torch.Tensor = x + mixed + torch.tanh(self.near(x)).roll(1, 1)
        return out


def test_a_module_that_does_more_than_was_read_is_only_probed() -> None:
    verdict = aq.check(Circular(), norm="lp", tokens=6)
    assert verdict.universal is None
    assert verdict.design is None
    (lie,) = (finding for finding in verdict.findings if finding.rule == "description")
    assert "does not commute with permutations" in lie.saw


def probed(module: nn.Module, norm: str, target: str) -> dict[str, tuple[bool | None, str]]:
    """What the probes say to a question: the answer, and what was seen."""
    found = aq.check(module, norm=norm, target=target, tokens=5).findings
    start = "probe: "
    return {
        one.rule.removeprefix(start): (one.holds, one.saw)
        for one in found
        if one.rule.startswith(start)
    }


def test_probes_answer_the_question_that_was_asked() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    commutes = (False, "commutes with permutations, reversal, rotation")
    depends = (True, "every output depends on every token")
    assert probed(layer, "sup", "all") == {
        "identical tokens": (False, "all outputs are equal"),
        "symmetry": commutes,
        "dependence": depends,
    }
    assert probed(layer, "lp", "all") == {"symmetry": commutes, "dependence": depends}
    assert probed(layer, "sup", "equivariant") == {"dependence": depends}
    recurrent = nn.LSTM(3, 4, batch_first=True)
    words = "every output depends on its own token and on every earlier one"
    assert probed(recurrent, "sup", "causal")["dependence"] == (
        True,
        f"{words}, and on no later one",
    )
    assert probed(recurrent, "sup", "all")["dependence"] == (
        False,
        "no output depends on a later token",
    )
    both = nn.GRU(3, 4, batch_first=True, bidirectional=True)
    assert probed(both, "lp", "causal")["dependence"] == (True, words)
    near = nn.Sequential(nn.Conv1d(5, 5, 1, groups=5))  # tokens as channels: each by itself
    for target in ("all", "causal"):
        assert probed(near, "lp", target)["dependence"][0] is False
    assert probed(near, "lp", "causal")["dependence"][1] == "output 4 does not depend on token 0"


class Rotate(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x.roll(1, 1).tanh() + x.roll(2, 1).sin() * x.roll(3, 1)


def test_rotation_and_reversal_as_witnesses() -> None:
    verdict = aq.check(Rotate(), norm="lp", target="all", tokens=4)
    assert verdict.witness is not None
    assert verdict.witness.name == "W4"
    pool = nn.Sequential(nn.Conv1d(5, 5, 1), nn.Tanh())  # mixes tokens as channels: no symmetry
    assert aq.check(pool, norm="lp", tokens=5).universal is None


def test_a_module_that_hides_a_token() -> None:
    class Window(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            places = torch.arange(x.shape[1]).to(x)[:, None]
            near = nn.functional.avg_pool1d(x.mT, 3, 1, 1).mT
            return near + places

    for norm in ("sup", "lp"):
        verdict = aq.check(Window(), norm=norm, target="equivariant", tokens=6)
        assert verdict.universal is None  # seen, not proved
        assert verdict.witness is not None
        assert verdict.witness.name == "W6"


# Planted errors: models that are not what they say.


def with_secret_positions() -> Any:
    """A Llama whose first layer is told the position, which its config does not say."""
    model, _ = build("llama")
    places = torch.linspace(0, 1, 64)[:, None]
    layer = model.model.layers[0]
    layer.input_layernorm.register_forward_hook(
        lambda module, args, out: out + places[: out.shape[1]].to(out)
    )
    return model


def with_another_mask() -> Any:
    """A GPT-2 whose attention lets every token see the mean over all tokens."""
    model, _ = build("gpt2")
    for block in model.transformer.h:
        block.attn.register_forward_hook(
            lambda module, args, out: (out[0] + out[0].mean(1, keepdim=True), *out[1:])
        )
    return model


def with_another_config() -> Any:
    """A GPT-2 that carries the config of a Llama."""
    model, _ = build("gpt2")
    model.config = LlamaConfig(hidden_size=32, num_hidden_layers=2, vocab_size=50)
    return model


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (with_secret_positions, "identical tokens at 0 and 1 are told apart"),
        (with_another_mask, "depends on token"),
        (with_another_config, "are told apart"),
    ],
)
def test_models_that_are_not_what_they_say(make: Any, words: str) -> None:
    verdict = aq.check(make(), target="causal", tokens=7)
    assert verdict.universal is None
    (lie,) = (finding for finding in verdict.findings if finding.rule == "description")
    assert lie.holds is False
    assert lie.saw in verdict.reason
    assert words in lie.saw


class Subclass(LlamaModel):
    """A class of somebody else's: its config need not describe it."""


def test_foreign_classes_are_only_probed() -> None:
    verdict = aq.check(Subclass(build("llama")[0].config), target="causal", tokens=5)
    assert verdict.universal is None  # seen, not proved
    assert verdict.witness is not None
    assert verdict.design is None
    assert "not proved for others" in verdict.reason


def test_a_pattern_put_on_a_model() -> None:
    model, _ = build("bert")
    aq.hf.use(model, aq.Window(1))
    verdict = aq.check(model, tokens=9)
    assert verdict.universal is None  # seen, not proved
    assert verdict.design is None
    assert verdict.witness is not None
    assert verdict.witness.name == "W6"


def test_a_long_model_is_probed_on_fewer_tokens() -> None:
    verdict = aq.check(build("llama")[0], tokens=300)
    assert verdict.universal is False
    assert verdict.witness is not None
    assert verdict.witness.sequences.shape[1] == 300
    (seen,) = (one for one in verdict.findings if one.rule == "probe: identical tokens")
    assert seen.saw == "all outputs are equal"
    assert seen.theorem.endswith(", 16 tokens")


def test_too_long_to_be_probed() -> None:
    model = aq.nn.Transformer(aq.Design(300, aq.Documents((150, 150))), dim=8, depth=1)
    verdict = aq.check(model)
    assert any(one.rule == "probe" and one.holds is None for one in verdict.findings)


def test_bad_input_is_one_line() -> None:
    class Raises(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no\nway")

    for what, error in (
        ({"model_type": "nobody"}, UnsupportedModel),
        (Raises(), InvalidArgument),
        (nn.Flatten(), InvalidArgument),
    ):
        with pytest.raises(error) as caught:
            aq.check(what)
        assert "\n" not in str(caught.value)
    with pytest.raises(InvalidArgument, match="tokens=0"):
        aq.check({"model_type": "bert"}, tokens=0)


def test_a_verdict_on_a_part_says_so() -> None:
    verdict = aq.check(T5Config())
    both = "The encoder and the decoder of T5 (T5Config), 6 layers, BOS, 15 tokens"
    assert both in str(verdict).splitlines()
    model = T5ForConditionalGeneration(
        T5Config(d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2, vocab_size=20)
    )
    subject = "T5ForConditionalGeneration: the encoder of T5 (T5Config)"
    assert any(line.startswith(subject) for line in str(aq.check(model, tokens=4)).splitlines())


def test_a_model_saved_with_another_attention_is_not_read_as_what_its_config_says(
    tmp_path: Path,
) -> None:
    model = BertModel(BertConfig(hidden_size=16, num_attention_heads=2, num_hidden_layers=1))
    aq.hf.use(model, aq.Window(1)).save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModel, match=r"saved after anyseq\.hf\.use"):
        aq.check(str(tmp_path / "config.json"))


def test_layers_that_borrow_keys_are_idle_in_a_proof() -> None:
    """Gemma 3n: its last layers attend to keys of earlier ones. A yes needs the others alone."""
    config = Gemma3nTextConfig(
        num_hidden_layers=6,
        num_kv_shared_layers=2,
        sliding_window=8,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2,
    )
    reading = read(config, 12)
    assert reading.contained is not None
    assert reading.design is not None
    own = [layer.sees for layer in reading.contained.layer_cycle]
    assert [pattern == aq.Blocks(1) for pattern in own] == [False] * 4 + [True] * 2
    verdict = aq.check(config, tokens=12)
    assert verdict.universal is False
    assert verdict.fixes == ()
    assert verdict.headline == "No: it cannot tell how many equal tokens it has seen."
    known = _as_contained(
        aq.check(reading.design, target="causal"), reading.contained, seconds=10.0
    )
    assert known.universal is None
    with_bos = [replace(one, bos=True) for one in (reading.design, reading.contained)]
    proved = _as_contained(aq.check(with_bos[0], target="causal"), with_bos[1], seconds=10.0)
    assert proved.universal is True
    assert proved.certificate is not None
    assert proved.certificate.design == with_bos[1]


def test_a_window_that_a_longer_model_has_lost_is_noticed() -> None:
    """It is wider than the few tokens on which long models are compared: without it the answer
    would be about a model that is not this one."""
    config = MistralConfig(
        vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=112,
        sliding_window=40,
    )  # fmt: skip
    model = MistralForCausalLM(config)
    attention: Any = model.model.layers[0].self_attn
    own: Any = type(attention)

    class Unmasked(own):  # type: ignore[misc]
        def forward(self, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            return super().forward(hidden_states, *args, **kwargs | {"attention_mask": None})

    assert aq.check(model).universal is False
    attention.__class__ = Unmasked
    verdict = aq.check(model)
    assert verdict.universal is None
    assert any(one.rule == "description" and one.holds is False for one in verdict.findings)
