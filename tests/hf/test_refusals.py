"""What `use` and the models it was used on refuse, by name, and what the probe catches."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import (
    BigBirdConfig,
    BigBirdModel,
    BloomConfig,
    BloomForCausalLM,
    LongformerConfig,
    LongformerModel,
    MptConfig,
    MptForCausalLM,
    PreTrainedModel,
    RoFormerConfig,
    RoFormerModel,
)

import anyseq as aq
from anyseq.errors import InvalidArgument, UnsupportedModel
from anyseq.hf.attend import Site, attend
from anyseq.hf.mask import build_mask
from hf.tiny import COMMON, FAMILIES, attending, batch, gpt_oss, make, t5
from versions import EXPERTS_RUN, T5_ATTENDS

# DeBERTa's own module calls torch.jit.script when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")


def deberta() -> PreTrainedModel:
    from transformers import DebertaConfig, DebertaModel

    return DebertaModel(DebertaConfig(**COMMON))


BYPASSING: dict[str, Callable[[], PreTrainedModel]] = {
    "BloomForCausalLM": lambda: BloomForCausalLM(
        BloomConfig(hidden_size=32, n_layer=2, n_head=4, vocab_size=50)
    ),
    "MptForCausalLM": lambda: MptForCausalLM(
        MptConfig(d_model=32, n_layers=2, n_heads=4, vocab_size=50)
    ),
    "RoFormerModel": lambda: RoFormerModel(RoFormerConfig(**COMMON)),
    "DebertaModel": deberta,
    "LongformerModel": lambda: LongformerModel(LongformerConfig(**COMMON, attention_window=4)),
    "BigBirdModel": lambda: BigBirdModel(BigBirdConfig(**COMMON)),
}
if not T5_ATTENDS:
    BYPASSING["T5ForConditionalGeneration"] = t5


@pytest.mark.parametrize("name", BYPASSING)
def test_models_that_bypass_the_interface(name: str) -> None:
    model = BYPASSING[name]()
    before = model.config._attn_implementation
    with pytest.raises(UnsupportedModel, match=f"{name}.*AttentionInterface"):
        aq.hf.use(model, aq.Window(2))
    assert model.config._attn_implementation == before


@pytest.mark.parametrize("name", BYPASSING)
def test_the_probe_alone_finds_them_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If transformers one day lets them set the implementation and ignores it all the same."""
    model = BYPASSING[name]()
    monkeypatch.setattr(type(model), "_can_set_attn_implementation_cached_value", True, False)
    with pytest.raises(UnsupportedModel, match=name):
        aq.hf.use(model, aq.Window(2))


def test_t5_is_told_which_transformers_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a transformers before 5.15 sees it, whatever this one is."""
    model = t5()
    monkeypatch.setattr(type(model), "_can_set_attn_implementation_cached_value", False, False)
    with pytest.raises(UnsupportedModel, match=r"T5.*AttentionInterface.*transformers 5\.15 on"):
        aq.hf.use(model, aq.Window(2))


def test_experts_are_told_which_torch_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """gpt-oss where the CPU has no operator for all experts at once; where it has, that is taken
    away."""

    def fail(*args: object, **kwargs: object) -> None:
        raise NotImplementedError("Could not run 'aten::_grouped_mm' with arguments from\nthe CPU")

    model: Any = gpt_oss()
    if EXPERTS_RUN:
        aq.hf.use(model, aq.Window(2))
        monkeypatch.setattr(type(model.model.layers[0].mlp.experts), "forward", fail)
    with pytest.raises(UnsupportedModel, match=r"GptOss.*torch 2\.9.*set_experts_impl") as caught:
        aq.hf.use(model, aq.Window(2))
    assert "\n" not in str(caught.value)
    monkeypatch.undo()
    model.set_experts_implementation("eager")
    aq.hf.use(model, aq.Window(2))


def test_something_else() -> None:
    linear: Any = torch.nn.Linear(2, 2)
    with pytest.raises(InvalidArgument, match="model=Linear: expected a transformers"):
        aq.hf.use(linear)
    with pytest.raises(InvalidArgument, match="did you mean Window"):
        aq.hf.use(make("bert"), aq.Window)


def planted(change: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda **asked: change(build_mask(**asked))


def without_padding(mask: Any) -> Any:
    mask.key_mask = None
    return mask


def without_causality(mask: Any) -> Any:
    mask.causal = False
    return mask


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda mask: None, "attention_mask: none arrived|changed with the padding"),
        (without_padding, "changed with the padding"),
    ],
)
@pytest.mark.parametrize("name", attending(*FAMILIES))
def test_a_wrong_mask_function_is_caught(
    name: str, change: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyseq.hf.attach.build_mask", planted(change))
    with pytest.raises(UnsupportedModel, match=says):
        aq.hf.use(make(name), aq.Window(2))


@pytest.mark.parametrize("name", attending("gpt2", "llama", "t5"))
def test_a_mask_function_without_causality_is_caught(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyseq.hf.attach.build_mask", planted(without_causality))
    with pytest.raises(UnsupportedModel, match="hides from it"):
        aq.hf.use(make(name), aq.Window(2))


@pytest.mark.parametrize("name", attending(*FAMILIES))
def test_a_pattern_that_does_not_act_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Site, "pattern", None)
    with pytest.raises(UnsupportedModel, match="hides from it"):
        aq.hf.use(make(name), aq.Window(12))


def test_a_failed_use_leaves_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    model = aq.hf.use(make("bert"), aq.Window(2), gain=True).eval()
    before, gain = model(**batch(model)).logits, model.anyseq_gain
    with monkeypatch.context() as patch:
        patch.setattr("anyseq.hf.attach.build_mask", planted(without_padding))
        with pytest.raises(UnsupportedModel):
            aq.hf.use(model, aq.Window(1), gain=8)
    aq.hf.use(make("bert"), aq.Full())  # registers the right mask function again
    assert torch.equal(model(**batch(model)).logits, before)
    assert model.anyseq_gain is gain


@pytest.mark.parametrize("name", attending(*FAMILIES))
def test_output_attentions(name: str) -> None:
    model = aq.hf.use(make(name), aq.Full())
    with pytest.raises(InvalidArgument, match="output_attentions=True"):
        model(**batch(model), output_attentions=True)


def test_output_attentions_of_generate() -> None:
    model = aq.hf.use(make("gpt2"), aq.Full())
    with pytest.raises(InvalidArgument, match="output_attentions=True"):
        model.generate(
            batch(model)["input_ids"],
            max_new_tokens=2,
            output_attentions=True,
            return_dict_in_generate=True,
        )


def test_meaning_that_is_not_known() -> None:
    model = aq.hf.use(make("llama"), aq.Full())
    inputs = batch(model)
    for name in ("cu_seq_lens_q", "head_mask"):
        with pytest.raises(InvalidArgument, match=name):
            model(**inputs, **{name: torch.ones(4)})


def test_is_causal_is_honoured_or_contradicts_the_mask() -> None:
    model = aq.hf.use(make("llama"), aq.Full()).eval()
    ids = batch(model)["input_ids"]
    free = model(ids, is_causal=False).logits
    torch.testing.assert_close(free, make("llama").eval()(ids, is_causal=False).logits)
    assert (free - model(ids).logits).abs().max() > 1e-3
    q = torch.zeros(1, 4, 3, 8)
    layer = model.model.layers[0].self_attn
    with pytest.raises(InvalidArgument, match="is_causal=False: the model's mask says True"):
        attend(layer, q, q, q, build_mask(1, 3, 3), is_causal=False)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float64])
def test_a_dense_mask_of_the_caller_is_honoured(dtype: torch.dtype) -> None:
    model = aq.hf.use(make("bert"), aq.Window(4)).eval()
    ids = batch(model)["input_ids"]
    mask = aq.Window(2).mask(12).expand(2, 1, 12, 12)
    if dtype != torch.bool:
        mask = torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)
    got = model(ids, attention_mask=mask).logits
    expected = aq.hf.use(make("bert"), aq.Window(2)).eval()(ids).logits
    torch.testing.assert_close(got, expected)
    with pytest.raises(InvalidArgument, match="attention_mask of shape"):
        model(ids, attention_mask=mask[..., :-1])


def test_a_cache_needs_a_pattern_that_can_grow() -> None:
    model = aq.hf.use(make("gpt2"), aq.Random(2, 0)).eval()
    inputs = batch(model)
    del inputs["labels"]
    with pytest.raises(InvalidArgument, match=r"Random.*use_cache=False"):
        model.generate(**inputs, max_new_tokens=3)
    assert model.generate(**inputs, max_new_tokens=3, use_cache=False).shape == (2, 15)


def test_without_transformers_the_pip_command_is_named() -> None:
    code = (
        "import sys; sys.modules['transformers'] = None\n"
        "import anyseq\n"
        "try:\n    anyseq.hf\n"
        "except anyseq.errors.MissingExtra as problem:\n    print(problem)"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert 'pip install "anyseq[hf]"' in said.stdout
