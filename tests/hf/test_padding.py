"""A padded sequence is attended to as the same sequence alone, whatever the pattern."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import anyseq as aq
from anyseq.errors import InvalidArgument
from hf.tiny import make

PATTERNS: dict[str, Any] = {
    "hub": aq.Window(1) | aq.Global((0,)),
    "blocks": aq.Blocks(3),
    "fixed": aq.Fixed(3),
    "star": aq.Star(1),
    "strided": aq.Strided(3),
    "last token": aq.Window(2) | aq.Global((-1,)),
    "by head": aq.PerHead(aq.Blocks(2), aq.Global((0,)) | aq.Window(1)),
    "function": lambda b, h, i, j: (i == 0) | (j == 0) | (i == j),
    "tensor": torch.rand(12, 12, generator=torch.Generator().manual_seed(0)) < 0.5,
}
GROWING = ["hub", "blocks", "by head", "strided"]  # what a cache can serve


def padded(side: str, lengths: tuple[int, ...] = (12, 7, 4)) -> tuple[Any, list[torch.Tensor]]:
    """Inputs of a batch, and the sequences in it."""
    generator = torch.Generator().manual_seed(3)
    rows = [torch.randint(3, 50, (length,), generator=generator) for length in lengths]
    ids, mask = (torch.zeros(len(rows), max(lengths), dtype=torch.int64) for _ in range(2))
    for row, tokens in enumerate(rows):
        where = slice(len(tokens)) if side == "right" else slice(max(lengths) - len(tokens), None)
        ids[row, where], mask[row, where] = tokens, 1
    position = (mask.cumsum(1) - 1).clamp(min=0)
    return {"input_ids": ids, "attention_mask": mask, "position_ids": position}, rows


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", ["bert", "llama", "gpt2"])
@pytest.mark.parametrize("name", PATTERNS)
def test_padding_is_as_no_padding(name: str, family: str, side: str) -> None:
    model = aq.hf.use(make(family), PATTERNS[name]).eval()
    inputs, rows = padded(side, (12,) if name == "tensor" and side == "right" else (12, 7, 4))
    with torch.no_grad():
        together = model(**inputs, use_cache=False).logits
        for row, tokens in enumerate(rows):
            if name == "tensor" and len(tokens) < 12:
                continue  # alone it has no pattern: a tensor is for 12 tokens
            alone = model(input_ids=tokens[None], use_cache=False).logits[0]
            found = together[row][inputs["attention_mask"][row].bool()]
            torch.testing.assert_close(found, alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("name", GROWING)
def test_generation_from_padded_prompts_is_that_from_each_alone(name: str, family: str) -> None:
    model = aq.hf.use(make(family), PATTERNS[name]).eval()
    inputs, rows = padded("left")
    inputs.pop("position_ids")
    how: dict[str, Any] = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    together = model.generate(**inputs, **how)[:, 12:]
    for row, tokens in enumerate(rows):
        alone = model.generate(
            tokens[None], attention_mask=torch.ones(1, len(tokens)).long(), **how
        )
        assert together[row].tolist() == alone[0, len(tokens) :].tolist()


def test_a_mask_of_one_length_fits_no_other_padded_or_not() -> None:
    model = aq.hf.use(make("bert"), PATTERNS["tensor"]).eval()
    for lengths in ((6, 6), (6, 4), (14, 14), (14, 9)):
        inputs, _ = padded("left", lengths)
        with pytest.raises(InvalidArgument, match=r"fits 12 tokens|of shape \(12, 12\)"):
            model(**inputs)
