"""Nothing that is kept from one call to the next may be out of date, or unfit, at the next."""

import pytest
import torch
from torch.nn.attention.flex_attention import BlockMask

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.ops.operator import keys
from ops.cases import inputs


def test_a_mask_made_while_evaluating_serves_training() -> None:
    q, k, v = inputs(64)
    with torch.inference_mode():
        aq.attention(q, k, v, pattern=aq.Window(3))
    q.requires_grad_()
    aq.attention(q, k, v, pattern=aq.Window(3)).sum().backward()
    assert q.grad is not None


@pytest.mark.parametrize("backend", ["auto", "native", "tiles", "sdpa"])
def test_a_function_may_look_at_what_changes(backend: str) -> None:
    document = torch.zeros(300, dtype=torch.int64)
    pattern = aq.FromMask(lambda b, h, i, j: document[i] == document[j])
    q, k, v = inputs(300)
    aq.attention(q, k, v, pattern=pattern, backend=backend)
    document[100:] = 1
    torch.testing.assert_close(
        aq.attention(q, k, v, pattern=pattern, backend=backend),
        aq.attention(q, k, v, pattern=aq.Documents((100, 200)), backend="reference"),
        rtol=0,
        atol=1e-10,
    )


def test_a_pattern_has_a_mask_of_its_own() -> None:
    mask = aq.Causal().mask(300)
    pattern = aq.FromMask(mask)
    mask.fill_(True)
    assert pattern == aq.FromMask(aq.Causal().mask(300))
    assert torch.equal(pattern.mask(300), aq.Causal().mask(300))


@pytest.mark.parametrize("backend", ["auto", "reference", "native", "tiles", "sdpa"])
def test_the_blocks_of_a_block_mask_count(backend: str) -> None:
    """Made from lists of blocks, its function allows everything."""
    one = torch.ones(1, 1, 2, dtype=torch.int32)
    index = torch.tensor([[[[0, 1], [1, 0]]]], dtype=torch.int32)
    given = BlockMask.from_kv_blocks(one, index, BLOCK_SIZE=128, seq_lengths=(256, 256))
    q, k, v = inputs(256)
    torch.testing.assert_close(
        aq.attention(q, k, v, pattern=given, backend=backend),
        aq.attention(q, k, v, pattern=aq.Blocks(128), backend="reference"),
        rtol=0,
        atol=1e-10,
    )
    assert torch.equal(aq.FromMask(given).mask(256), aq.Blocks(128).mask(256))
    with pytest.raises(InvalidArgument, match="for a sequence of 300 tokens"):
        aq.FromMask(given).block_mask(300)


def test_a_function_that_asks_python_about_the_head_is_refused() -> None:
    pattern = aq.FromMask(lambda b, h, i, j: (i >= j) if h == 0 else (i <= j))
    q, k, v = inputs(300)
    with pytest.raises(InvalidArgument, match="the mask_mod fails on index tensors"):
        aq.attention(q, k, v, pattern=pattern)
    by_head = aq.FromMask(lambda b, h, i, j: torch.where(h == 0, i >= j, i <= j))
    with pytest.raises(InvalidArgument, match="not a single mask"):
        by_head.block_mask(256, heads=2)


@pytest.mark.parametrize("pattern", [aq.Fixed(4), aq.Random(2, 1), aq.Global((-6,))])
def test_rows_at_a_time_know_the_whole_length(
    pattern: aq.Pattern, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anyseq.ops import in_tiles

    monkeypatch.setattr(in_tiles, "_SCORES", 40)
    q, _, _ = inputs(12)
    _, k, v = inputs(5)
    torch.testing.assert_close(
        aq.attention(q, k, v, pattern=pattern, prob_map="sparsemax", backend="tiles"),
        aq.attention(q, k, v, pattern=pattern, prob_map="sparsemax", backend="reference"),
    )


def test_patterns_are_not_remembered_for_ever() -> None:
    for first in range(1, 1100):
        key = keys.key_of(aq.Documents((first, 5)))
    assert len(keys._DESCRIBED_KEYS) <= 1024
    assert keys.pattern_of(key) == aq.Documents((1099, 5))
    assert keys.pattern_of(keys.key_of(aq.Documents((1, 5)))) == aq.Documents((1, 5))


def test_a_plan_for_a_backend_that_was_asked_for() -> None:
    q, k, v = inputs(300)
    plan = aq.attention_plan(q, k, v, pattern=aq.Window(3), backend="native")
    assert plan.backend == "native"
    assert plan.scores < plan.dense_scores
