"""Against eager attention, family by family: losses, gradients, patterns, generated tokens."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    BertConfig,
    BertForMaskedLM,
    PreTrainedModel,
)
from transformers.masking_utils import eager_mask

import anyseq as aq
from hf.tiny import ENCODER, FAMILIES, SINGLE, SPECIALS, attend_by, attending, batch, make

EVERYBODY = attending(*FAMILIES, *SPECIALS)
DECODERS = attending("gpt2", "llama", "t5", *SPECIALS)
PATTERN = aq.Window(2) | aq.Global((0,))
TOKENS, PADDED = 12, 4


def loss_and_gradients(model: PreTrainedModel, tokens: int = TOKENS) -> dict[str, torch.Tensor]:
    loss = model(**batch(model, tokens)).loss
    loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {"loss": loss.detach()} | gradients


def assert_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor], family: str) -> None:
    rtol, atol = (1e-4, 1e-5) if family in SINGLE else (0.0, 1e-10)
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=rtol, atol=atol)


@pytest.fixture
def dense() -> Iterator[str]:
    """Eager attention that gets PATTERN as a dense mask, in self-attention (N = M) only."""

    def attend(module: torch.nn.Module, q: Any, k: Any, v: Any, mask: Any, **kwargs: Any) -> Any:
        eager = sys.modules[type(module).__module__].eager_attention_forward
        rows, columns = q.shape[2], k.shape[2]
        if rows == columns:
            seen = PATTERN.mask(rows).expand(len(q), 1, -1, -1).clone()
            if rows == TOKENS:  # the second sequence of `batch` begins later, and so does PATTERN
                seen[1:, :, PADDED:, PADDED:] = PATTERN.mask(TOKENS - PADDED)
            hidden = torch.zeros(seen.shape, dtype=q.dtype)
            hidden.masked_fill_(~seen, torch.finfo(q.dtype).min)
            mask = hidden if mask is None else torch.minimum(mask, hidden)
        return eager(module, q, k, v, mask, **kwargs)

    AttentionInterface.register("dense-for-test", attend)
    AttentionMaskInterface.register("dense-for-test", eager_mask)
    yield "dense-for-test"
    del AttentionInterface._global_mapping["dense-for-test"]
    del AttentionMaskInterface._global_mapping["dense-for-test"]


@pytest.mark.parametrize("name", EVERYBODY)
def test_full_attention_trains_as_eager_does(name: str) -> None:
    eager = loss_and_gradients(make(name))
    assert_equal(loss_and_gradients(aq.hf.use(make(name), aq.Full())), eager, name)


@pytest.mark.parametrize("name", EVERYBODY)
def test_a_pattern_trains_as_eager_with_a_dense_mask_does(name: str, dense: str) -> None:
    reference = make(name)
    attend_by(reference, dense)
    expected = loss_and_gradients(reference)
    assert_equal(loss_and_gradients(aq.hf.use(make(name), PATTERN)), expected, name)
    plain = loss_and_gradients(make(name))["loss"]
    assert (expected["loss"] - plain).abs() > 1e-3


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_padding_on_the_right_is_as_no_padding(name: str) -> None:
    model = aq.hf.use(make(name), aq.Window(2)).eval()
    ids = batch(model)["input_ids"]
    mask = torch.ones_like(ids)
    mask[:, 9:] = 0
    padded = model(input_ids=ids, attention_mask=mask).logits[:, :9]
    short = model(input_ids=ids[:, :9]).logits
    torch.testing.assert_close(padded, short, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", DECODERS)
def test_generating_with_a_cache_is_generating_without(name: str) -> None:
    model = aq.hf.use(make(name), aq.Window(3), gain=64).eval()
    with torch.no_grad():
        model.anyseq_gain.coefficients.uniform_(
            0.5, 2.0, generator=torch.Generator().manual_seed(3)
        )
    inputs = batch(model, 9)
    del inputs["labels"]
    settings = {"max_new_tokens": 12, "do_sample": False}
    expected = model.generate(**inputs, **settings, use_cache=False)
    for cache in ("dynamic", "static"):
        got = model.generate(**inputs, **settings, cache_implementation=cache)
        assert torch.equal(got, expected), cache


@pytest.mark.parametrize("name", DECODERS)
def test_full_attention_generates_what_eager_does(name: str) -> None:
    model = make(name).eval()
    inputs = batch(model, 9)
    del inputs["labels"]
    expected = model.generate(**inputs, max_new_tokens=12, do_sample=False)
    got = aq.hf.use(model, aq.Full()).generate(**inputs, max_new_tokens=12, do_sample=False)
    assert torch.equal(got, expected)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_logits_step_by_step_are_those_of_the_whole(name: str) -> None:
    model = aq.hf.use(make(name).double(), PATTERN, gain=True).eval()
    ids = batch(model)["input_ids"]
    whole = model(ids, use_cache=False).logits
    cache, steps = None, []
    for part in ids.split([5, 1, 3, 1, 1, 1], dim=1):
        out = model(part, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        steps.append(out.logits)
    torch.testing.assert_close(torch.cat(steps, dim=1), whole, rtol=0, atol=1e-12)


def test_packed_sequences_do_not_see_each_other() -> None:
    model = aq.hf.use(make("llama").double(), aq.Window(4)).eval()
    ids = batch(model)["input_ids"][:1]
    positions = torch.cat([torch.arange(7), torch.arange(5)])[None]
    packed = model(ids, position_ids=positions, use_cache=False).logits
    apart = torch.cat([model(part).logits for part in ids.split([7, 5], dim=1)], dim=1)
    torch.testing.assert_close(packed, apart, rtol=0, atol=1e-12)


def test_long_sequences_take_tiles_and_agree_with_the_formula() -> None:
    """400 tokens are enough for `auto` to leave the dense kernels."""
    config = BertConfig(**(ENCODER | {"max_position_embeddings": 512}))
    ids = torch.randint(50, (2, 400), generator=torch.Generator().manual_seed(0))
    keep = torch.ones_like(ids)
    keep[1, 300:] = 0
    losses = []
    for backend in ("auto", "reference"):
        torch.manual_seed(0)
        model = aq.hf.use(BertForMaskedLM(config).double(), PATTERN, gain=True, backend=backend)
        loss = model(ids, attention_mask=keep, labels=ids).loss
        loss.backward()
        gain = model.get_parameter("anyseq_gain.coefficients").grad
        assert gain is not None
        losses.append((loss.detach(), gain))
    torch.testing.assert_close(losses[0], losses[1], rtol=0, atol=1e-10)
