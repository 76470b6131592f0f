"""Patterns layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM, T5ForConditionalGeneration

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.hf.layers import by_layer
from hf.tiny import batch, make
from versions import attends_by_t5

NARROW, WIDE = aq.Window(1), aq.Window(3)


def logits(model: Any) -> torch.Tensor:
    found: torch.Tensor = model.eval()(input_ids=batch(model)["input_ids"]).logits
    return found


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, (None,) * 3),
        (NARROW, (NARROW,) * 3),
        ((NARROW, None), (NARROW, None, NARROW)),
        ([NARROW, WIDE, None], (NARROW, WIDE, None)),
        ({1: WIDE}, (None, WIDE, None)),
        (lambda layer: aq.Window(layer + 1), (aq.Window(1), aq.Window(2), aq.Window(3))),
        (lambda layer: WIDE if layer else None, (None, WIDE, WIDE)),
    ],
)
def test_what_each_layer_gets(given: Any, expected: Any) -> None:
    assert by_layer(given, 3) == expected


def test_a_mask_mod_is_for_all_layers() -> None:
    first, second = by_layer(lambda b, h, i, j: i >= j, 2)
    assert first is not None
    assert first == second
    (own,) = by_layer(torch.eye(3).bool(), 1)
    assert own == aq.FromMask(torch.eye(3).bool())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({2: NARROW}, r"pattern\[2\]: the model has the layers 0 to 1"),
        ({-1: NARROW}, "layer"),
        ({"first": NARROW}, "layer"),
        ((NARROW,) * 3, "3 of them; expected 1 to 2"),
        ((), "0 of them"),
        ((NARROW, 5), "pattern=5"),
    ],
)
def test_what_does_not_fit(given: Any, says: str) -> None:
    model = make("bert")
    before = logits(model)
    with pytest.raises(InvalidArgument, match=says):
        aq.hf.use(model, given)
    assert torch.equal(logits(model), before)


def test_the_layer_named_is_the_one_that_changes() -> None:
    """With a change of the last token, who notices after one layer tells what that layer sees."""
    ids = batch(make("bert"))["input_ids"][:1]
    moved = ids.clone()
    moved[0, -1] = ids[0, -1] % 40 + 5
    for given, reach in (({0: NARROW}, 2), ({1: NARROW}, 12), ((NARROW, None), 2)):
        model = aq.hf.use(make("bert"), given).eval()
        first, second = (
            model.bert(one, output_hidden_states=True).hidden_states[1] for one in (ids, moved)
        )
        assert int(((first - second).abs().amax(2) > 0).sum()) == reach
    whole = aq.hf.use(make("bert"), NARROW)
    assert torch.equal(logits(aq.hf.use(make("bert"), (NARROW, NARROW))), logits(whole))


@attends_by_t5
def test_the_layers_of_a_decoder_come_after_those_of_its_encoder() -> None:
    model = aq.hf.use(make("t5"), {2: NARROW}).eval()
    inputs = {"input_ids": batch(model)["input_ids"]}
    inputs["decoder_input_ids"] = inputs["input_ids"]
    plain, found = make("t5").eval()(**inputs), model(**inputs)
    encoded = (found.encoder_last_hidden_state, plain.encoder_last_hidden_state)
    torch.testing.assert_close(*encoded, rtol=0, atol=1e-12)
    assert (found.logits - plain.logits).abs().max() > 1e-3
    with pytest.raises(InvalidArgument, match="layers 0 to 3"):
        aq.hf.use(model, {4: NARROW})


@pytest.mark.parametrize(
    "given", [(NARROW, WIDE), {1: NARROW}, lambda layer: (aq.Global((0,)) | NARROW, None)[layer]]
)
def test_they_are_saved(tmp_path: Path, given: Any) -> None:
    model = aq.hf.use(make("llama"), given, gain=True)
    with torch.no_grad():
        model.anyseq_gain.coefficients.uniform_(0.5, 2.0)
    model.save_pretrained(tmp_path)
    loaded = aq.hf.from_pretrained(tmp_path)
    assert type(loaded) is LlamaForCausalLM
    assert torch.equal(logits(loaded), logits(model))


@attends_by_t5
def test_those_of_an_encoder_and_a_decoder_are_saved(tmp_path: Path) -> None:
    aq.hf.use(make("t5"), {0: NARROW, 3: WIDE}).save_pretrained(tmp_path)
    loaded: Any = aq.hf.from_pretrained(tmp_path)
    assert loaded.anyseq_attachment.patterns == (NARROW, None, None, WIDE)
    assert type(loaded) is T5ForConditionalGeneration
