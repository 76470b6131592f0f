"""DeepSpeed's layouts, each written out as a rule for one pair of blocks."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_block_mask

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.patterns import (
    Coarse,
    Landmarks,
    Pattern,
    PeriodicLandmarks,
    RandomPast,
    UnevenBlocks,
    from_deepspeed,
    pattern_from_dict,
)

BLOCK = 4


def layout(config: dict[str, Any], blocks: int, head: int = 0, **options: int) -> torch.Tensor:
    """(blocks, blocks): which block sees which in a head; every token of a block agrees."""
    pattern = from_deepspeed({"block": BLOCK} | config, **options)
    parts = pattern.heads()
    mask = parts[head % len(parts)].mask(blocks * BLOCK)
    cells = mask[::BLOCK, ::BLOCK]
    assert torch.equal(mask, cells.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1))
    return cells


def written_out(blocks: int, rule: Callable[[int, int], bool]) -> torch.Tensor:
    return torch.tensor([[rule(i, j) for j in range(blocks)] for i in range(blocks)])


directions = st.sampled_from(["bidirectional", "unidirectional"])


def test_dense() -> None:
    assert layout({"mode": "dense"}, 5).all()


@given(
    st.integers(1, 13),
    st.sampled_from([(4, 1), (4, 2), (3, 1), (6, 3), (1, 1)]),
    directions,
    st.booleans(),
    st.integers(0, 3),
)
def test_fixed(
    blocks: int, sizes: tuple[int, int], direction: str, horizontal: bool, head: int
) -> None:
    local, count = sizes
    onward = direction == "unidirectional"
    horizontal = horizontal and not onward
    versions = local // count
    config = {
        "mode": "fixed",
        "num_local_blocks": local,
        "num_global_blocks": count,
        "attention": direction,
        "horizontal_global_attention": horizontal,
        "different_layout_per_head": True,
        "num_different_global_patterns": versions,
    }
    # the landmarks of each window: counted from its end, one step further for each head; a window
    # cut short at the end of the sequence has them at the same place if they fit, else at the end
    place = local - (1 + head % versions) * count
    starts = [window + place for window in range(0, blocks, local) if window + local <= blocks]
    if blocks % local:
        starts.append(min(blocks - blocks % local + place, blocks - count))
    if min(starts) < 0:
        return  # fewer blocks than landmarks: DeepSpeed's own layout makes no sense there

    def rule(i: int, j: int) -> bool:
        same = i // local == j // local and (j <= i or not onward)
        seen = any(s <= j < s + count and (i >= s or not onward) for s in starts)
        sees = horizontal and any(s <= i < s + count for s in starts)
        return same or seen or sees

    assert torch.equal(layout(config, blocks, head), written_out(blocks, rule))


@given(
    st.integers(1, 13),
    st.sampled_from([[4], [1, 2], [2, 3, 1], [20]]),
    st.sampled_from([([0], None), ([1, 5], None), ([0, 4], [2, 30]), ([], None)]),
    directions,
    st.booleans(),
)
def test_variable(
    blocks: int,
    windows: list[int],
    places: tuple[list[int], list[int] | None],
    direction: str,
    horizontal: bool,
) -> None:
    onward = direction == "unidirectional"
    horizontal = horizontal and not onward
    config = {
        "mode": "variable",
        "local_window_blocks": windows,
        "global_block_indices": places[0],
        "global_block_end_indices": places[1],
        "attention": direction,
        "horizontal_global_attention": horizontal,
    }
    window_of = [number for number, size in enumerate(windows) for _ in range(size)]
    while len(window_of) < blocks:
        window_of += [window_of[-1] + 1] * windows[-1]
    spans = list(zip(places[0], places[1] or [p + 1 for p in places[0]], strict=True))

    def rule(i: int, j: int) -> bool:
        same = window_of[i] == window_of[j] and (j <= i or not onward)
        seen = any(a <= j < b and (i >= a or not onward) for a, b in spans)
        return same or seen or (horizontal and any(a <= i < b for a, b in spans))

    assert torch.equal(layout(config, blocks), written_out(blocks, rule))


@given(st.integers(1, 13), st.sampled_from([1, 2, 3, 6]), st.integers(1, 3), directions)
def test_bigbird_without_random_blocks(blocks: int, window: int, hubs: int, direction: str) -> None:
    config = {
        "mode": "bigbird",
        "num_sliding_window_blocks": window,
        "num_global_blocks": hubs,
        "attention": direction,
    }

    def rule(i: int, j: int) -> bool:
        seen = abs(i - j) <= window // 2 or i < hubs or j < hubs
        return seen and (j <= i or direction == "bidirectional")

    assert torch.equal(layout(config, blocks), written_out(blocks, rule))


@given(
    st.integers(1, 13),
    st.sampled_from([1, 3, 4]),
    st.sampled_from([([0], None), ([2, 9], None), ([1, 4], [3, 30])]),
    directions,
)
def test_longformer(
    blocks: int, window: int, places: tuple[list[int], list[int] | None], direction: str
) -> None:
    config = {
        "mode": "bslongformer",
        "num_sliding_window_blocks": window,
        "global_block_indices": places[0],
        "global_block_end_indices": places[1],
        "attention": direction,
    }
    spans = list(zip(places[0], places[1] or [p + 1 for p in places[0]], strict=True))

    def rule(i: int, j: int) -> bool:
        hub = any(a <= i < b or a <= j < b for a, b in spans)
        seen = hub or abs(i - j) <= window // 2
        return seen and (j <= i or direction == "bidirectional")

    assert torch.equal(layout(config, blocks), written_out(blocks, rule))


@pytest.mark.parametrize("mode", ["local", "bslocalslidingwindow"])
def test_local(mode: str) -> None:
    past = layout({"mode": mode, "num_sliding_window_blocks": 5}, 9)
    assert torch.equal(past, written_out(9, lambda i, j: 0 <= i - j <= 2))
    both = layout({"mode": mode, "attention": "bidirectional"}, 9)
    assert torch.equal(both, written_out(9, lambda i, j: abs(i - j) <= 1))


def test_what_is_left_out_has_deepspeeds_values() -> None:
    assert from_deepspeed({}) == from_deepspeed(
        {"mode": "fixed", "block": 16, "num_local_blocks": 4, "num_global_blocks": 1}
    )
    assert from_deepspeed({"mode": "bigbird"}) == from_deepspeed(
        {"mode": "bigbird", "num_random_blocks": 0, "num_sliding_window_blocks": 3}
    )


def test_random_blocks() -> None:
    config = {"mode": "bigbird", "num_random_blocks": 2, "num_sliding_window_blocks": 1}
    without = layout(config | {"num_random_blocks": 0}, 40)
    both = layout(config, 40)
    assert (both & ~without).sum(1)[1:].max() == 2
    assert (both >= without).all()
    assert not torch.equal(both, layout(config, 40, seed=1))
    past = layout(config | {"attention": "unidirectional"}, 40)
    assert torch.equal(past, past.tril())
    assert (past & ~without).sum(1)[10:].double().mean() > 1.5
    variable = layout({"mode": "variable", "num_random_blocks": 2}, 40)
    assert (variable.sum(1) > layout({"mode": "variable"}, 40).sum(1)).double().mean() > 0.9
    different = config | {"different_layout_per_head": True}
    assert not torch.equal(layout(different, 40, 0, heads=2), layout(different, 40, 1, heads=2))
    with pytest.raises(InvalidArgument, match="heads: random blocks differ"):
        from_deepspeed(different)


@given(st.integers(1, 5), st.integers(1, 30), st.integers(0, 3))
def test_random_past_draws_without_replacement(count: int, n: int, seed: int) -> None:
    mask = RandomPast(count, seed).mask(n)
    assert torch.equal(mask, mask.tril())
    assert mask.sum(1).tolist() == [min(count, i + 1) for i in range(n)]


def test_random_past_has_no_favourites() -> None:
    last = torch.stack([RandomPast(2, seed).mask(6)[-1] for seed in range(600)])
    assert last.double().mean(0).tolist() == pytest.approx([1 / 3] * 6, abs=0.07)


INNER = st.one_of(
    st.sampled_from([aq.Full(), aq.Causal(), RandomPast(2), UnevenBlocks((2, 3))]),
    st.builds(aq.Window, st.integers(1, 5)),
    st.builds(
        Landmarks, st.booleans(), st.booleans(), st.sampled_from([((0, 1),), ((2, 5), (4, 7))])
    ),
    st.builds(
        PeriodicLandmarks, st.booleans(), st.booleans(), st.just(4), st.just(1), st.integers(1, 3)
    ),
)


@given(INNER, st.sampled_from([1, 3, 4, 8, 32]), st.integers(20, 150), st.sampled_from([8, 16]))
def test_blocks_are_those_of_torch(inner: Pattern, block: int, n: int, size: int) -> None:
    pattern = Coarse(block, inner)
    index = torch.arange(n) // block
    assert torch.equal(pattern.mask(n), inner.mask(-(-n // block))[index[:, None], index])
    theirs = create_block_mask(pattern.at(n), None, None, n, n, device="cpu", BLOCK_SIZE=size)
    ours = pattern.block_mask(n, size)
    for name in ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name


def test_a_long_layout_needs_no_dense_mask() -> None:
    config = {"mode": "bslongformer", "block": 64, "num_sliding_window_blocks": 5}
    mask = from_deepspeed(config).block_mask(131_072)
    assert mask.shape == (1, 1, 131_072, 131_072)


@pytest.mark.parametrize(
    "config",
    [
        {"mode": "dense"},
        {"num_different_global_patterns": 2, "different_layout_per_head": True},
        {"mode": "variable", "num_random_blocks": 1, "global_block_end_indices": [3]},
        {"mode": "bigbird", "num_random_blocks": 1, "attention": "unidirectional"},
        {"mode": "local"},
    ],
    ids=str,
)
def test_dictionary_round_trip_through_json(config: dict[str, Any]) -> None:
    pattern = from_deepspeed(config)
    assert pattern_from_dict(json.loads(json.dumps(pattern.to_dict()))) == pattern


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (3, "config=3"),
        ({"mode": "strided"}, "mode='strided'"),
        ({"mode": "bigbird", "num_local_blocks": 3}, "'num_local_blocks'; mode 'bigbird' accepts"),
        ({"mode": "dense", "attention": "bidirectional"}, "'attention'; mode 'dense' accepts"),
        ({"block": 0}, "block=0"),
        ({"attention": "causal"}, "attention='causal'"),
        ({"num_local_blocks": 4, "num_global_blocks": 3}, "not a multiple of num_global_blocks=3"),
        ({"num_different_global_patterns": 2}, "needs different_layout_per_head=true"),
        (
            {"num_different_global_patterns": 5, "different_layout_per_head": True},
            "expected at most num_local_blocks / num_global_blocks = 4",
        ),
        (
            {"horizontal_global_attention": True, "attention": "unidirectional"},
            "need attention='bidirectional'",
        ),
        ({"horizontal_global_attention": 1}, "horizontal_global_attention=1"),
        ({"mode": "variable", "local_window_blocks": []}, r"sizes=\(\)"),
        ({"mode": "variable", "global_block_end_indices": [1, 2]}, "has 2 entries"),
        ({"mode": "bslongformer", "global_block_end_indices": [0]}, "ends before it begins"),
        ({"mode": "bigbird", "num_sliding_window_blocks": 0}, "num_sliding_window_blocks=0"),
    ],
)
def test_bad_configurations_are_named(config: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        from_deepspeed(config)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Coarse(0, aq.Full()), "block=0"),
        (lambda: Coarse(2, 3), "pattern=3"),  # type: ignore[arg-type]
        (lambda: PeriodicLandmarks(size=4, first=3, count=2), "first=3, count=2"),
        (lambda: RandomPast(0), "count=0"),
    ],
)
def test_bad_patterns_are_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make()
