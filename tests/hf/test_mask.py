"""What Hugging Face asks for is read, not lost."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import masking_utils as hf

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.hf.mask import build_mask
from anyseq.hf.view import _can_grow as can_grow
from anyseq.hf.view import views
from versions import TRANSFORMERS

LEFT = torch.tensor([0, 2])
DOCUMENTS = torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2], [0, 0, 0, 0, 0, 0, 0, 0]])


def only_even(b: Any, h: Any, i: Any, j: Any) -> Any:
    return (j % 2 == 0) & (DOCUMENTS[b, i] >= 0)


ASKED = {
    "causal": hf.causal_mask_function,
    "bidirectional": hf.bidirectional_mask_function,
    "sliding": hf.sliding_window_causal_mask_function(3),
    "sliding one": hf.sliding_window_causal_mask_function(1),
    "sliding both ways": hf.sliding_window_bidirectional_mask_function(2),
    "chunked": hf.chunked_causal_mask_function(3, LEFT),
    "packed": hf.and_masks(hf.causal_mask_function, hf.packed_sequence_mask_function(DOCUMENTS)),
    "or": hf.or_masks(hf.causal_mask_function, hf.packed_sequence_mask_function(DOCUMENTS)),
    "own": hf.and_masks(hf.causal_mask_function, only_even),
}
if TRANSFORMERS >= "5.9":  # before, transformers has no such function
    ASKED["blocks"] = hf.or_masks(hf.causal_mask_function, hf.blockwise_overlay(DOCUMENTS))
BY_ROW = {"own", "or", "blocks"}  # they may look at the batch row


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("use_vmap", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("rows", "q_offset", "kv_offset"), [(8, 0, 0), (2, 6, 0), (2, 5, 3)])
def test_the_mask_is_the_dense_one(
    name: str, use_vmap: bool, padded: bool, rows: int, q_offset: int, kv_offset: int
) -> None:
    padding = torch.tensor([[True] * 8, [not padded] * 2 + [True] * 6])
    asked: dict[str, Any] = {
        "batch_size": 2,
        "q_length": rows,
        "kv_length": 8 - kv_offset,
        "q_offset": q_offset,
        "kv_offset": kv_offset,
        "mask_function": ASKED[name],
        "attention_mask": padding,
        "use_vmap": use_vmap,
    }
    expected = hf.sdpa_mask(**asked, allow_is_causal_skip=False)
    assert expected is not None
    q = torch.zeros(2, 1, rows, 1)
    mask = build_mask(**asked)
    (seen,) = views(mask, None, rows, 8 - kv_offset)
    k = torch.zeros(2, 1, 8 - kv_offset, 1)[:, :, seen.keys]
    v = torch.eye(8 - kv_offset)[seen.keys].expand(2, 1, -1, -1)
    weights = aq.attention(
        q,
        k,
        v,
        pattern=seen.pattern,
        key_mask=seen.key_mask,
        document_ids=seen.documents,
        is_causal=bool(seen.causal),
        q_offset=seen.q_offset,
    )[:, 0]
    assert torch.equal(weights > 0, expected[:, 0])


def test_known_functions_become_named_patterns() -> None:
    def read(name: str) -> tuple[bool, Any]:
        mask = build_mask(2, 8, 8, mask_function=ASKED[name])
        return mask.causal, mask.pattern

    assert read("causal") == (True, None)
    assert read("bidirectional") == (False, None)
    assert read("sliding") == (True, aq.Window(2))
    assert read("sliding both ways") == (False, aq.Window(2))


def test_chunks_and_packed_sequences_become_documents() -> None:
    chunks = build_mask(2, 8, 8, mask_function=ASKED["chunked"])
    assert (chunks.causal, chunks.mask_mod) == (True, None)
    assert chunks.documents is not None
    assert chunks.documents.tolist() == [[0, 0, 0, 1, 1, 1, 2, 2], [-1, -1, 0, 0, 0, 1, 1, 1]]
    packed = build_mask(2, 8, 8, mask_function=ASKED["packed"])
    assert packed.documents is not None
    assert packed.documents.equal(DOCUMENTS)
    both = hf.and_masks(ASKED["chunked"], ASKED["packed"])
    mask = build_mask(2, 8, 8, mask_function=both)
    assert mask.documents is not None
    own = mask.documents[:, :, None] == mask.documents[:, None, :]
    i = torch.arange(8)
    b, h = torch.arange(2)[:, None, None], torch.zeros(1).long()
    expected = both(b, h, i[:, None], i) | both(b, h, i, i[:, None])
    assert torch.equal(own, expected)


@pytest.mark.parametrize("name", [name for name in ASKED if name in BY_ROW])
def test_a_function_that_may_look_at_the_batch_row_is_no_pattern(name: str) -> None:
    """A pattern is the same in every batch row; taken for one, the mask of row 0 would be all."""
    mask = build_mask(2, 8, 8, mask_function=ASKED[name])
    assert mask.pattern is None
    assert mask.mask_mod is not None


def test_it_takes_no_memory_and_refuses_arithmetic() -> None:
    mask = build_mask(2, 100_000, 100_000)
    assert mask.shape == (2, 1, 100_000, 100_000)
    assert mask.to("cpu") is mask
    assert "causal=True" in repr(mask)
    with pytest.raises(InvalidArgument, match="the model computes add"):
        mask + 1


def test_the_offset_of_a_static_cache_is_read_at_once() -> None:
    counter = torch.tensor(3)
    mask = build_mask(1, 1, 8, q_offset=counter)
    counter.add_(1)
    assert mask.q_offset == 3


def test_which_patterns_can_grow() -> None:
    grow = [
        aq.Window(2) | aq.Global((0,)),
        aq.Strided(3),
        ~aq.Window(2),
        aq.PerHead(aq.Full(), aq.Window(1)),
        aq.FromMask(lambda b, h, i, j: i == j),
        aq.Fixed(4),
        aq.BigBird(4, random=0),
    ]
    assert all(can_grow(pattern, causal=True) for pattern in grow)
    assert not any(can_grow(pattern, causal=False) for pattern in grow)
    assert can_grow(aq.Causal(), causal=False)
    for pattern in (aq.Random(1, 0), aq.Global((-1,)), aq.FromMask(torch.ones(3, 3).bool())):
        assert not can_grow(pattern, causal=True)
