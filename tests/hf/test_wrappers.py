"""Adapters, compilers, trainers: a model keeps what `use` put on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM, Trainer, TrainingArguments

import anyseq as aq
from anyseq.errors import InvalidArgument
from hf.tiny import batch, make

peft = pytest.importorskip("peft")
# What torch.compile imports calls torch.jit.script_method.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")

GAIN = "anyseq_gain.coefficients"
PATTERN = aq.Window(2) | aq.Global((0,))


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model.eval()(input_ids=batch(make("llama"))["input_ids"]).logits
    return found


def adapted(**more: Any) -> Any:
    model = aq.hf.use(make("llama"), PATTERN, gain=True)
    config = peft.LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM", **more)
    return peft.get_peft_model(model, config)


def test_wrappers_are_looked_into_and_given_back() -> None:
    expected = logits(aq.hf.use(make("llama"), PATTERN))
    plain = logits(make("llama"))

    class Copies(torch.nn.Module):
        """As DDP is, and DeepSpeed."""

        def __init__(self, module: torch.nn.Module) -> None:
            super().__init__()
            self.module = module

    def adapters(model: Any) -> Any:
        config = peft.LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")
        return peft.get_peft_model(model, config)

    compiled: Any = torch.compile
    wraps: list[Any] = [Copies, compiled, adapters]
    wraps.append(lambda model: Copies(compiled(adapters(model))))
    for wrap in wraps:
        model = make("llama")
        wrapped: Any = wrap(model)
        assert aq.hf.use(wrapped, PATTERN) is wrapped
        torch.testing.assert_close(logits(model), expected, rtol=0, atol=1e-6)
        assert aq.hf.restore(wrapped) is wrapped
        torch.testing.assert_close(logits(model), plain, rtol=0, atol=1e-6)
    with pytest.raises(InvalidArgument, match=r"gain.*before get_peft_model"):
        aq.hf.use(wrapped, PATTERN, gain=True)


def test_adapters_train_save_load_and_merge_the_gain(tmp_path: Path) -> None:
    model = adapted(modules_to_save=["anyseq_gain"])
    learned = {name: one for name, one in model.named_parameters() if one.requires_grad}
    (own,) = [name for name in learned if "anyseq_gain" in name]
    model(**batch(make("llama"))).loss.backward()
    assert learned[own].grad.abs().sum() > 0
    before = logits(model)
    with torch.no_grad():
        for one in learned.values():
            one.add_(torch.rand(one.shape, generator=torch.Generator().manual_seed(0)))
    trained = logits(model)
    assert (trained - before).abs().max() > 1e-3
    model.save_pretrained(tmp_path / "adapter")
    base = aq.hf.use(make("llama"), PATTERN, gain=True)
    loaded = peft.PeftModel.from_pretrained(base, tmp_path / "adapter")
    torch.testing.assert_close(logits(loaded), trained, rtol=0, atol=1e-6)
    with loaded.disable_adapter():
        torch.testing.assert_close(logits(loaded), before, rtol=0, atol=1e-6)
    merged = model.merge_and_unload()
    assert type(merged) is LlamaForCausalLM
    assert GAIN in dict(merged.named_parameters())
    torch.testing.assert_close(logits(merged), trained, rtol=0, atol=1e-4)
    merged.save_pretrained(tmp_path / "merged")
    again = aq.hf.from_pretrained(tmp_path / "merged")
    assert torch.equal(logits(again), logits(merged))


def test_adapters_that_do_not_name_the_gain_keep_it_as_it_is() -> None:
    model = adapted()
    assert not any(
        "anyseq_gain" in name for name, one in model.named_parameters() if one.requires_grad
    )
    assert torch.equal(logits(model), logits(aq.hf.use(make("llama"), PATTERN, gain=True)))


class Sentences(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        ids = torch.randint(3, 50, (8,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


def trainer(folder: Path, steps: int) -> Trainer:
    model = aq.hf.use(make("llama"), (PATTERN, None), gain=True)
    how: dict[str, Any] = {"max_steps": steps, "save_steps": 2, "learning_rate": 1e-2}
    how |= {"per_device_train_batch_size": 4, "report_to": [], "disable_tqdm": True}
    how |= {"use_cpu": True, "dataloader_pin_memory": False}
    return Trainer(model, TrainingArguments(str(folder), **how), train_dataset=Sentences())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of transformers' and accelerate's own
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_trainer_that_stops_and_goes_on(tmp_path: Path) -> None:
    whole, rest = (trainer(tmp_path / name, 4) for name in ("whole", "rest"))
    whole.train()
    rest.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-2"))
    models: list[Any] = [whole.model, rest.model]
    gains = [model.anyseq_gain.coefficients.detach() for model in models]
    assert (gains[0] - 1).abs().max() > 1e-3
    torch.testing.assert_close(gains[1], gains[0], rtol=0, atol=1e-6)
    saved = aq.hf.from_pretrained(tmp_path / "rest" / "checkpoint-4")
    assert torch.equal(logits(saved), logits(rest.model))


@pytest.mark.parametrize(
    "enable", ["gradient_checkpointing_enable", "activation_checkpointing_enable"]
)
def test_checkpoints_of_activations(enable: str) -> None:
    """The second is the name from transformers 5.23 on."""
    gradients = []
    for checkpointed in (False, True):
        model = aq.hf.use(make("llama"), (PATTERN, aq.Window(2)), gain=True).train()
        if checkpointed and not hasattr(model, enable):
            pytest.skip(f"this transformers has no {enable}")
        if checkpointed:
            getattr(model, enable)()
        model(**batch(model), use_cache=False).loss.backward()
        gradients.append(model.anyseq_gain.coefficients.grad)
    torch.testing.assert_close(*gradients)


def test_another_precision_after_use() -> None:
    model = aq.hf.use(make("llama"), PATTERN, gain=True).to(torch.bfloat16)
    assert model.anyseq_gain.coefficients.dtype == torch.bfloat16
    assert logits(model).isfinite().all()
