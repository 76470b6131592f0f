"""`use(model)` and nothing more: the model's own masks, windows, chunks, sinks and caps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import anyseq as aq
from anyseq.hf import attend as attend_file
from hf.plain import DECODERS, NO_SDPA, PLAIN, build
from hf.tiny import GROUPED, SINGLE, attending, batch


def trained(model: Any) -> dict[str, torch.Tensor]:
    loss = model(**batch(model, 20)).loss
    loss.backward()
    found = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
    return {"loss": loss.detach()} | found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", attending(*PLAIN))
def test_loss_and_gradients_are_those_of_torch(name: str, dtype: torch.dtype) -> None:
    if dtype == torch.float64 and name in NO_SDPA & SINGLE:
        pytest.skip("its eager attention takes the softmax in float32")
    expected, found = trained(build(name, dtype)), trained(aq.hf.use(build(name, dtype)))
    assert expected.keys() == found.keys()
    near = 1e-10 if dtype == torch.float64 else 1e-5
    for key, value in expected.items():
        size = max(1.0, float(value.abs().max()))
        torch.testing.assert_close(found[key], value, rtol=0, atol=near * size, msg=key)


@pytest.mark.parametrize("cache", ["dynamic", "static", None])
@pytest.mark.parametrize("name", attending(*DECODERS))
def test_generation_is_that_of_torch(name: str, cache: str | None) -> None:
    """With windows and chunks the dynamic cache keeps the last keys only."""
    dtype = torch.float32 if name in NO_SDPA else torch.float64
    inputs = batch(build(name, dtype), 9)
    del inputs["labels"]
    how: dict[str, Any] = {"max_new_tokens": 9, "do_sample": False, "use_cache": cache is not None}
    if cache is not None:
        how["cache_implementation"] = cache
    expected = build(name, dtype).eval().generate(**inputs, **how)
    found = aq.hf.use(build(name, dtype)).eval().generate(**inputs, **how)
    assert torch.equal(found, expected)


def test_beams_are_those_of_torch() -> None:
    inputs = batch(build("mistral", torch.float64), 9)
    del inputs["labels"]
    how: dict[str, Any] = {"max_new_tokens": 8, "num_beams": 3, "do_sample": False}
    expected = build("mistral", torch.float64).eval().generate(**inputs, **how)
    found = aq.hf.use(build("mistral", torch.float64)).eval().generate(**inputs, **how)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("name", ["llama4", "modernbert", "gemma3", "qwen3"])
def test_what_the_model_hides_is_not_computed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No function is handed on, whose mask would be dense: a window, or documents."""
    seen: list[dict[str, Any]] = []

    def noticed(q: Any, k: Any, v: Any, **arguments: Any) -> Any:
        seen.append(arguments)
        return aq.attention(q, k, v, **arguments)

    model = aq.hf.use(build(name, torch.float64)).eval()
    monkeypatch.setattr(attend_file, "attention", noticed)
    model(input_ids=batch(model, 20)["input_ids"])
    local, whole = seen
    assert local["document_ids"] is not None or isinstance(local["pattern"], aq.Window)
    assert whole["pattern"] is None
    assert whole["document_ids"] is None


def test_packed_sequences_are_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    model = aq.hf.use(LlamaForCausalLM(LlamaConfig(**GROUPED)).double()).eval()
    seen: list[Any] = []

    def noticed(q: Any, k: Any, v: Any, **arguments: Any) -> Any:
        seen.append(arguments["document_ids"])
        return aq.attention(q, k, v, **arguments)

    monkeypatch.setattr(attend_file, "attention", noticed)
    ids = batch(model)["input_ids"][:1]
    positions = torch.cat([torch.arange(7), torch.arange(5)])[None]
    packed = model(ids, position_ids=positions, use_cache=False).logits
    assert seen[0].tolist() == [[0] * 7 + [1] * 5]
    apart = torch.cat([model(part).logits for part in ids.split([7, 5], dim=1)], dim=1)
    torch.testing.assert_close(packed, apart, rtol=0, atol=1e-12)
