"""`use` and `restore`: what is put on a model, what comes off again, what stays apart."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    LlamaForCausalLM,
    PreTrainedModel,
)

import anyseq as aq
from anyseq.errors import FileProblem, InvalidArgument
from hf.tiny import COMMON, FAMILIES, attending, batch, make
from versions import attends_by_t5


def logits(model: PreTrainedModel) -> torch.Tensor:
    inputs = batch(model)
    out: torch.Tensor = model.eval()(**inputs).logits
    return out if model.config.is_encoder_decoder else out[inputs["attention_mask"].bool()]


@pytest.mark.parametrize("name", attending(*FAMILIES))
def test_a_gain_of_ones_changes_nothing_and_learns(name: str) -> None:
    plain = logits(make(name))
    model = aq.hf.use(make(name), gain=64)
    torch.testing.assert_close(logits(model), plain, rtol=1e-5, atol=1e-5)
    assert "anyseq_gain.coefficients" in dict(model.named_parameters())
    assert model.anyseq_gain.coefficients.shape == (4, 127)
    model(**batch(model)).loss.backward()
    assert model.anyseq_gain.coefficients.grad.abs().sum() > 0


def test_a_gain_is_multiplied_after_the_softmax() -> None:
    table = torch.rand(4, 127, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    bare = make("bert")
    seen: list[torch.Tensor] = []
    layer = bare.bert.encoder.layer[0].attention.self
    layer.register_forward_hook(lambda module, args, out: seen.append(out[0]))
    ids = batch(bare)["input_ids"]
    value = layer.value(bare.eval().bert.embeddings(ids)).view(2, 12, 4, 8).transpose(1, 2)
    weights = bare(ids, output_attentions=True).attentions[0]
    offset = torch.arange(12)[:, None] - torch.arange(12) + 63
    expected = (weights * table[:, offset]) @ value
    aq.hf.use(bare, gain=aq.Toeplitz(table))(ids)
    torch.testing.assert_close(seen[-1], expected.transpose(1, 2).flatten(2))


def test_the_gain_takes_its_length_from_the_config_or_is_told() -> None:
    assert aq.hf.use(make("llama"), gain=True).anyseq_gain.coefficients.shape == (4, 127)
    with pytest.raises(InvalidArgument, match=r"gain=True.*T5ForConditionalGeneration.*gain=n"):
        aq.hf.use(make("t5"), gain=True)
    with pytest.raises(InvalidArgument, match="gain of 3 heads"):
        aq.hf.use(make("bert"), gain=torch.ones(3, 127))
    with pytest.raises(InvalidArgument, match="offsets up to 4"):
        aq.hf.use(make("bert"), gain=5)(**batch(make("bert")))


def test_two_models_do_not_interfere_even_with_one_config() -> None:
    config = BertConfig(**COMMON)
    one, other = BertModel(config).eval(), BertModel(config).eval()
    other.load_state_dict(one.state_dict())
    aq.hf.use(one, aq.Window(1))
    aq.hf.use(other, aq.Window(3), gain=True)
    ids = batch(one)["input_ids"]
    narrow, wide = one(ids)[0], other(ids)[0]
    assert (narrow - wide).abs().max() > 1e-3
    aq.hf.use(other, aq.Window(1))
    assert torch.equal(one(ids)[0], narrow)
    assert torch.equal(other(ids)[0], narrow)


def test_a_model_that_shares_a_config_but_was_not_met_says_so() -> None:
    config = BertConfig(**COMMON)
    one, other = BertModel(config), BertModel(config)
    aq.hf.use(one, aq.Window(1))
    with pytest.raises(InvalidArgument, match="share"):
        other(batch(one)["input_ids"])


def test_a_copy_has_its_own_gain() -> None:
    model = aq.hf.use(make("gpt2"), aq.Window(2), gain=True)
    twin = copy.deepcopy(model)
    assert torch.equal(logits(twin), logits(model))
    with torch.no_grad():
        twin.anyseq_gain.coefficients.mul_(2)
    assert (logits(twin) - logits(model)).abs().max() > 1e-3


@pytest.mark.parametrize("name", attending("llama", "t5"))
def test_restore_undoes_everything(name: str) -> None:
    model = make(name)
    before, names = logits(model), set(model.state_dict())
    aq.hf.use(model, aq.Window(1), gain=32)
    aq.hf.use(model, aq.Window(2), gain=32)
    assert (logits(model) - before).abs().max() > 1e-3
    aq.hf.restore(model)
    assert torch.equal(logits(model), before)
    assert set(model.state_dict()) == names
    seen = model(**batch(model), output_attentions=True)
    assert seen.encoder_attentions if name == "t5" else seen.attentions


def test_using_leaves_modes_and_random_numbers_alone() -> None:
    model = make("bert")
    model.bert.embeddings.eval()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    aq.hf.use(model, aq.BigBird(4, 1, 1, 1, 0))
    assert torch.equal(torch.rand(3), expected)
    assert model.training
    assert not model.bert.embeddings.training


def test_saving_and_loading(tmp_path: Path) -> None:
    model = aq.hf.use(make("llama"), aq.Window(2), gain=True)
    with torch.no_grad():
        model.anyseq_gain.coefficients.uniform_(0.5, 2.0)
    before = model.config.to_dict()
    model.save_pretrained(tmp_path)
    after = model.config.to_dict()
    assert {key: value for key, value in after.items() if before.get(key) != value}.keys() <= {
        "architectures",
        "dtype",
    }
    for model_class in (LlamaForCausalLM, AutoModelForCausalLM):
        loaded = aq.hf.from_pretrained(tmp_path, model_class)
        assert torch.equal(logits(loaded), logits(model))
        assert "anyseq_gain.coefficients" in dict(loaded.named_parameters())
    aq.hf.restore(loaded).save_pretrained(tmp_path / "plain")
    plain = LlamaForCausalLM.from_pretrained(tmp_path / "plain")
    assert not torch.equal(logits(plain), logits(model))


@pytest.mark.parametrize("how", ["restored", "as another attention"])
def test_what_was_taken_off_does_not_come_back(tmp_path: Path, how: str) -> None:
    aq.hf.use(make("llama"), aq.Window(1)).save_pretrained(tmp_path / "first")
    if how == "restored":
        dense = aq.hf.restore(aq.hf.from_pretrained(tmp_path / "first", LlamaForCausalLM))
    else:
        dense = LlamaForCausalLM.from_pretrained(tmp_path / "first", attn_implementation="sdpa")
    dense.save_pretrained(tmp_path / "second")
    with pytest.raises(FileProblem, match="does not name attention by anyseq"):
        aq.hf.from_pretrained(tmp_path / "second", LlamaForCausalLM)
    plain = LlamaForCausalLM.from_pretrained(tmp_path / "second")
    torch.testing.assert_close(logits(plain), logits(make("llama")), rtol=0, atol=1e-5)
    assert aq.check(tmp_path / "second", tokens=4).reason


def test_arguments_of_from_pretrained(tmp_path: Path) -> None:
    model = aq.hf.use(make("bert"), gain=True)
    with torch.no_grad():
        model.anyseq_gain.coefficients.uniform_(0.5, 2.0)
    model.save_pretrained(tmp_path, variant="other")
    loaded, info = aq.hf.from_pretrained(
        tmp_path, BertForMaskedLM, variant="other", output_loading_info=True
    )
    assert torch.equal(logits(loaded), logits(model))
    assert not info["unexpected_keys"]


def test_a_gain_in_one_of_many_files_is_found(tmp_path: Path) -> None:
    model = aq.hf.use(make("bert"), gain=True)
    with torch.no_grad():
        model.anyseq_gain.coefficients.uniform_(0.5, 2.0)
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert (tmp_path / "model.safetensors.index.json").is_file()
    loaded = aq.hf.from_pretrained(tmp_path, BertForMaskedLM)
    assert torch.equal(logits(loaded), logits(model))


@pytest.mark.parametrize("registered", [False, True])
def test_loading_without_anyseq_is_heard(tmp_path: Path, registered: bool) -> None:
    """In a process that never heard of us, and in one where another model is attended to by us."""
    aq.hf.use(make("llama"), aq.Window(2)).save_pretrained(tmp_path)
    other = "import anyseq as aq, hf.tiny; aq.hf.use(hf.tiny.make('bert'), aq.Window(1))"
    code = f"""
import torch
{other if registered else "pass"}
from transformers import AutoModelForCausalLM
AutoModelForCausalLM.from_pretrained({str(tmp_path)!r})(torch.tensor([[5, 6, 7]]))
"""
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert ran.returncode == 1
    wanted = (
        "anyseq.hf.from_pretrained"
        if registered
        else 'attn_implementation="anyseq"` is not supported'
    )
    assert wanted in ran.stderr


def test_a_copy_saves_what_is_on_it_and_a_part_what_is_on_the_whole(tmp_path: Path) -> None:
    model = aq.hf.use(make("llama"), aq.Window(2))
    other = aq.hf.use(copy.deepcopy(model), aq.Window(1))
    model.save_pretrained(tmp_path / "model")
    other.save_pretrained(tmp_path / "other")
    model.model.save_pretrained(tmp_path / "part")
    for name, radius in (("model", 2), ("other", 1), ("part", 2)):
        facts = json.loads((tmp_path / name / "config.json").read_text())["anyseq"]
        assert facts["pattern"] == aq.Window(radius).to_dict()
    aq.hf.use(model, gain=True)
    with pytest.raises(InvalidArgument, match="belongs to the whole"):
        model.model.save_pretrained(tmp_path / "again")


def test_models_that_share_a_config_save_what_is_on_each(tmp_path: Path) -> None:
    config = BertConfig(**COMMON)
    models = {1: BertModel(config), 3: BertModel(config)}
    for radius, model in models.items():
        aq.hf.use(model, aq.Window(radius))
    for radius, model in models.items():
        model.save_pretrained(tmp_path / str(radius))
        facts = json.loads((tmp_path / str(radius) / "config.json").read_text())["anyseq"]
        assert facts["pattern"] == aq.Window(radius).to_dict()


def test_what_cannot_be_put_on_again_is_refused_by_name(tmp_path: Path) -> None:
    aq.hf.use(make("bert"), lambda b, h, i, j: i >= j).save_pretrained(tmp_path / "function")
    with pytest.raises(FileProblem, match="could not be saved"):
        aq.hf.from_pretrained(tmp_path / "function", BertForMaskedLM)
    make("bert").save_pretrained(tmp_path / "plain")
    with pytest.raises(FileProblem, match="does not name attention by anyseq"):
        aq.hf.from_pretrained(tmp_path / "plain", BertForMaskedLM)
    aq.hf.use(make("bert"), aq.Window(1)).save_pretrained(tmp_path / "newer")
    file = tmp_path / "newer" / "config.json"
    file.write_text(file.read_text().replace('"version": 2', '"version": 3'))
    with pytest.raises(FileProblem, match="version 3"):
        aq.hf.from_pretrained(tmp_path / "newer", BertForMaskedLM)


def test_a_mask_mod_is_a_pattern() -> None:
    by_hand = aq.hf.use(make("bert"), lambda b, h, i, j: (i - j).abs() <= 2)
    named = aq.hf.use(make("bert"), aq.Window(2))
    torch.testing.assert_close(logits(by_hand), logits(named), rtol=0, atol=1e-12)


def test_patterns_may_differ_by_head_or_fix_the_length() -> None:
    aq.hf.use(make("llama"), aq.PerHead(aq.Window(1), aq.Full()))
    aq.hf.use(make("bert"), aq.Documents((3, 4)))
    aq.hf.use(make("bert"), aq.Window(40))


@attends_by_t5
def test_patterns_may_fix_the_length_of_an_encoder_and_a_decoder() -> None:
    aq.hf.use(make("t5"), aq.Documents((3, 4)))


def test_gradient_checkpointing_gives_the_same_gradients() -> None:
    gradients = []
    for checkpointed in (False, True):
        model = aq.hf.use(make("llama"), aq.Window(2), gain=True).train()
        if checkpointed:
            model.gradient_checkpointing_enable()
        model(**batch(model), use_cache=False).loss.backward()
        gradients.append(model.anyseq_gain.coefficients.grad)
    torch.testing.assert_close(*gradients)


def test_half_precision() -> None:
    model = aq.hf.use(make("llama").to(torch.bfloat16), aq.Window(2), gain=True)
    assert model.anyseq_gain.coefficients.dtype == torch.bfloat16
    assert logits(model).isfinite().all()


def test_the_old_name_of_loading_warns(tmp_path: Path) -> None:
    model = aq.hf.use(make("bert"), aq.Window(1))
    model.save_pretrained(tmp_path)
    with pytest.warns(DeprecationWarning, match="from_pretrained"):
        loaded = aq.hf.load(BertForMaskedLM, tmp_path)
    assert torch.equal(logits(loaded), logits(model))


def test_what_an_older_version_saved(tmp_path: Path) -> None:
    model = aq.hf.use(make("bert"), aq.Window(1))
    model.save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(file.read_text().replace('"version": 2', '"version": 1'))
    assert torch.equal(logits(aq.hf.from_pretrained(tmp_path)), logits(model))


@pytest.mark.parametrize("named", ["os", "BertConfig", "Nobody", None])
def test_an_architecture_that_is_no_model_is_not_run(tmp_path: Path, named: str | None) -> None:
    aq.hf.use(make("bert"), aq.Window(1)).save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    facts = json.loads(file.read_text())
    facts["architectures"] = None if named is None else [named]
    file.write_text(json.dumps(facts))
    with pytest.raises(
        FileProblem, match="this version of transformers does not have; give its class"
    ):
        aq.hf.from_pretrained(tmp_path)
    assert type(aq.hf.from_pretrained(tmp_path, BertForMaskedLM)) is BertForMaskedLM


def test_a_model_alone_is_saved_as_it_is(tmp_path: Path) -> None:
    model = aq.hf.use(make("llama"))
    model.save_pretrained(tmp_path)
    loaded = aq.hf.from_pretrained(tmp_path)
    assert loaded.config._attn_implementation == aq.hf.NAME
    assert torch.equal(logits(loaded), logits(model))
