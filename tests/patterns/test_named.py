"""Every named pattern against its definition written as a loop, and its blocks against torch's."""

import json
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_block_mask

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.patterns import Landmarks, Pattern, Residue, Ring, Summary, pattern_from_dict
from anyseq.patterns.layouts import UnevenBlocks

Rule = Callable[[int, int, int], bool]

RULES: list[tuple[Pattern, Rule]] = [
    (aq.Full(), lambda i, j, n: True),
    (aq.Causal(), lambda i, j, n: j <= i),
    (aq.Window(2), lambda i, j, n: abs(i - j) <= 2),
    (aq.Window(radius=1), lambda i, j, n: abs(i - j) <= 1),
    (aq.Window(3, 1), lambda i, j, n: -1 <= i - j <= 3),
    (aq.Window(before=2, after=0), lambda i, j, n: 0 <= i - j <= 2),
    (aq.Window(0, 4), lambda i, j, n: 0 <= j - i <= 4),
    (aq.Window(0), lambda i, j, n: i == j),
    (aq.Window.from_sliding(3), lambda i, j, n: j <= i and i - j < 3),
    (aq.Dilated(2, 3), lambda i, j, n: i - j in (-6, -3, 0, 3, 6)),
    (aq.LogSparse(), lambda i, j, n: abs(i - j) in (0, 1, 2, 4, 8, 16, 32)),
    (Residue(3), lambda i, j, n: (i - j) % 3 == 0),
    (aq.Blocks(4), lambda i, j, n: i // 4 == j // 4),
    (Summary(4), lambda i, j, n: i == j or j % 4 == 3 or j == n - 1),
    (aq.Strided(3), lambda i, j, n: abs(i - j) <= 3 or (i - j) % 3 == 0),
    (aq.Fixed(4), lambda i, j, n: i // 4 == j // 4 or j % 4 == 3 or j == n - 1),
    (Ring(1), lambda i, j, n: (i - j) % n in (0, 1, n - 1)),
    (aq.Star(1), lambda i, j, n: i == 0 or j == 0 or (i - j) % n in (0, 1, n - 1)),
    (aq.Global((0, -1)), lambda i, j, n: {i, j} & {0, n - 1} != set()),
    (aq.Longformer(1, (0,)), lambda i, j, n: abs(i - j) <= 1 or i == 0 or j == 0),
]


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10, 20])
@pytest.mark.parametrize(("pattern", "rule"), RULES, ids=lambda value: str(value)[:20])
def test_masks_are_the_definitions(pattern: Pattern, rule: Rule, n: int) -> None:
    expected = torch.tensor([[rule(i, j, n) for j in range(n)] for i in range(n)])
    assert torch.equal(pattern.mask(n), expected)
    assert torch.equal(pattern.edges(n), expected.nonzero().T)
    assert pattern.sparsity(n) == pytest.approx(1 - float(expected.double().mean()))


LENGTH = 200
SEVERAL = st.one_of(
    st.sampled_from([aq.Full(), aq.Causal(), aq.LogSparse()]),
    st.builds(aq.Window, st.integers(0, 60)),
    st.builds(aq.Window, st.integers(0, 60), st.integers(0, 60)),
    st.builds(aq.Dilated, st.integers(1, 9), st.integers(1, 9)),
    st.builds(aq.Blocks, st.integers(1, 70)),
    st.builds(aq.Strided, st.integers(1, 40)),
    st.builds(aq.Fixed, st.integers(1, 40)),
    st.builds(aq.Star, st.integers(1, 40)),
    st.builds(aq.Global, st.lists(st.integers(-9, 20), max_size=40).map(tuple)),
    st.builds(aq.Random, st.integers(1, 30), st.integers(0, 3)),
    st.builds(
        aq.BigBird,
        st.integers(1, 40),
        st.sampled_from([1, 3]),
        st.integers(0, 2),
        st.integers(0, 2),
    ),
)
COMBINED = st.recursive(
    SEVERAL,
    lambda part: st.one_of(
        st.builds(lambda a, b: a | b, part, part),
        st.builds(lambda a, b: a & b, part, part),
        st.builds(lambda a: ~a, part),
    ),
    max_leaves=4,
)


@settings(max_examples=150)
@given(COMBINED, st.integers(21, LENGTH), st.sampled_from([16, 32]))
def test_blocks_are_those_of_torch(pattern: Pattern, n: int, size: int) -> None:
    ours = pattern.block_mask(n, size)
    theirs = create_block_mask(pattern.at(n), None, None, n, n, device="cpu", BLOCK_SIZE=size)
    assert torch.equal(ours.to_dense(), theirs.to_dense())
    for name in (
        "kv_num_blocks",
        "kv_indices",
        "full_kv_num_blocks",
        "full_kv_indices",
        "q_num_blocks",
        "q_indices",
        "full_q_num_blocks",
        "full_q_indices",
    ):
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name
    assert torch.equal(pattern.edges(n), pattern.mask(n).nonzero().T)


@settings(max_examples=60)
@given(SEVERAL, st.integers(21, LENGTH), st.sampled_from([16, 32]))
def test_named_patterns_know_their_blocks_exactly(pattern: Pattern, n: int, size: int) -> None:
    """No block of a simple pattern has to be looked at; a union may leave some open."""
    bounds = pattern.blocks(n, size)
    mask = pattern.mask(n)
    for row in range(-(-n // size)):
        for column in range(-(-n // size)):
            block = mask[row * size : (row + 1) * size, column * size : (column + 1) * size]
            some, full = bool(block.any()), bool(block.all())
            assert bounds.some_sure[row, column] <= some <= bounds.some_maybe[row, column]
            assert bounds.all_sure[row, column] <= full <= bounds.all_maybe[row, column]


@pytest.mark.parametrize(
    "pattern",
    [
        aq.Causal(),
        aq.Window(64),
        aq.Strided(362),
        aq.Fixed(362),
        aq.Star(64),
        aq.LogSparse(),
        aq.Longformer(128, (0, 5)),
        aq.BigBird(64),
        aq.Random(8),
        aq.Documents((65536, 1, 65535)),
        aq.Window(64) & aq.Causal() | aq.Global((0,)),
    ],
    ids=str,
)
def test_long_sequences_need_no_dense_mask(pattern: Pattern) -> None:
    """131,072 tokens: the dense mask would be 17 GB."""
    mask = pattern.block_mask(131_072)
    assert mask.shape == (1, 1, 131_072, 131_072)
    assert mask.full_kv_num_blocks is not None
    assert int(mask.kv_num_blocks.sum() + mask.full_kv_num_blocks.sum()) > 0


@pytest.mark.parametrize("seed", [0, 1])
def test_random_rows(seed: int) -> None:
    mask = aq.Random(5, seed).mask(40)
    assert mask.diagonal().all()
    assert (mask.sum(1) == 6).all()
    assert torch.equal(mask, aq.Random(5, seed).mask(40))
    assert not torch.equal(mask, aq.Random(5, seed + 1).mask(40))
    assert aq.Random(50).mask(10).all()
    columns = aq.Random(1, seed).mask(3000).sum(0)
    assert int(columns.max()) < 15, "no favourites"


def test_big_bird_blocks() -> None:
    pattern = aq.BigBird(4, window=3, globals=1, random=2, seed=0)
    blocks = pattern.mask(40)[::4, ::4]
    assert torch.equal(pattern.mask(40), blocks.repeat_interleave(4, 0).repeat_interleave(4, 1))
    assert blocks[0].all()
    assert blocks[:, 0].all()
    index = torch.arange(10)
    assert blocks[(index[:, None] - index).abs() <= 1].all()
    assert (blocks[1:].sum(1) <= 1 + 3 + 2).all()


def test_documents() -> None:
    mask = aq.Documents((2, 3)).mask(5)
    expected = torch.block_diag(torch.ones(2, 2), torch.ones(3, 3)).bool()
    assert torch.equal(mask, expected)
    with pytest.raises(InvalidArgument, match="lengths add up to 5, the sequence has 6"):
        aq.Documents((2, 3)).mask(6)


def test_split_gives_the_two_patterns() -> None:
    assert aq.Strided(3).split() == (aq.Window(3), Residue(3))
    assert aq.Fixed(4).split() == (aq.Blocks(4), Summary(4))


def test_per_head() -> None:
    pattern = aq.PerHead(*aq.Strided(3).split())
    q = torch.rand(1, 4, 9, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mixed = aq.attention(q, q, q, pattern=pattern)
    for head in range(4):
        part = aq.Strided(3).split()[head % 2]
        alone = aq.attention(*(q[:, head : head + 1],) * 3, pattern=part)
        torch.testing.assert_close(mixed[:, head : head + 1], alone)
    assert torch.equal(pattern.mask(9), aq.Strided(3).mask(9))


@pytest.mark.parametrize(
    "pattern",
    [
        aq.PerHead(*aq.Strided(3).split()),
        aq.PerHead(aq.Causal(), aq.Window(1)) | aq.Global((0,)),
        ~aq.PerHead(aq.Causal(), aq.Window(1), aq.Full()) & aq.Blocks(20),
        aq.PerHead(aq.PerHead(aq.Causal(), aq.Full()), aq.Window(1), aq.Window(2)),
    ],
    ids=str,
)
def test_patterns_that_differ_by_head(pattern: Pattern) -> None:
    n, heads = 40, 6
    theirs = create_block_mask(pattern.at(n), None, heads, n, n, device="cpu", BLOCK_SIZE=8)
    assert torch.equal(pattern.block_mask(n, 8, heads=heads).to_dense(), theirs.to_dense())
    index = torch.arange(n)
    head = torch.arange(heads)[:, None, None]
    every = pattern.at(n)(torch.zeros((), dtype=torch.int64), head, index[:, None], index)
    assert torch.equal(pattern.mask(n), every.any(0))
    assert torch.equal(pattern.edges(n), every.any(0).nonzero().T)
    with pytest.raises(InvalidArgument, match="differs from head to head"):
        pattern.block_mask(n, 8)


def test_from_mask() -> None:
    mask = aq.Causal().mask(6)
    pattern = aq.FromMask(mask)
    assert torch.equal(pattern.mask(6), mask)
    assert pattern == aq.FromMask(mask.clone())
    assert pattern != aq.FromMask(~mask)
    assert hash(pattern) == hash(aq.FromMask(mask.clone()))
    assert torch.equal(aq.FromMask(lambda b, h, i, j: i >= j).mask(6), mask)
    assert torch.equal((pattern | aq.Window(1)).mask(6), mask | aq.Window(1).mask(6))
    with pytest.raises(InvalidArgument, match=r"shape \(6, 6\) for a sequence of 7 tokens"):
        pattern.mask(7)
    with pytest.raises(InvalidArgument, match="holds a callable"):
        aq.FromMask(lambda b, h, i, j: i >= j).to_dict()


@pytest.mark.parametrize(
    "pattern",
    [
        *(pattern for pattern, _ in RULES),
        aq.Random(3, 1),
        aq.BigBird(8),
        aq.Documents((3, 4)),
        aq.PerHead(aq.Window(1), aq.Causal() | aq.Global((0,))),
        aq.FromMask(aq.Causal().mask(3)),
    ],
    ids=str,
)
def test_dictionary_round_trip_through_json(pattern: Pattern) -> None:
    assert pattern_from_dict(json.loads(json.dumps(pattern.to_dict()))) == pattern


def test_windows_of_one_side_and_of_both() -> None:
    assert aq.Window(4) == aq.Window(radius=4) == aq.Window(4, 4) != aq.Window(4, 0)
    assert aq.Window(4).radius == 4
    assert (aq.Window(3, 1).before, aq.Window(3, 1).after) == (3, 1)
    with pytest.raises(AttributeError, match=r"Window\(before=3, after=1\) has no radius"):
        _ = aq.Window(3, 1).radius
    assert aq.Window(3, 0).prefix_stable
    assert not aq.Window(3).prefix_stable
    assert [str(aq.Window(2)), str(aq.Window(2, 0))] == [
        "Window(radius=2)",
        "Window(before=2, after=0)",
    ]
    sliding = aq.Window.from_sliding(4)
    assert torch.equal(sliding.mask(20), (aq.Window(3) & aq.Causal()).mask(20))


def test_files_of_windows_by_radius_are_read_and_written() -> None:
    assert pattern_from_dict({"kind": "Window", "radius": 3}) == aq.Window(3)
    assert aq.Window(3).to_dict() == {"kind": "Window", "radius": 3}
    assert aq.Window(3, 0).to_dict() == {"kind": "Window", "before": 3, "after": 0}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: aq.Window(-1), "radius=-1"),
        (lambda: aq.Window(), "expected window"),
        (lambda: aq.Window(after=2), "after=2, radius=None: expected window"),
        (lambda: aq.Window(2, radius=2), "before=2, after=None, radius=2: expected window"),
        (lambda: aq.Window(2, -1), "after=-1"),
        (lambda: aq.Window(True, 1), "before=True"),
        (lambda: aq.Window.from_sliding(0), "width=0"),
        (lambda: aq.Dilated(1, 0), "step=0"),
        (lambda: aq.Blocks(0), "size=0"),
        (lambda: aq.Strided(0), "stride=0"),
        (lambda: aq.Fixed(0), "size=0"),
        (lambda: aq.Longformer(-1), "radius=-1"),
        (lambda: aq.Random(3, seed=1.5), "seed=1.5"),  # type: ignore[arg-type]
        (lambda: aq.patterns.Union([aq.Causal()]), "expected a tuple"),  # type: ignore[arg-type]
        (lambda: aq.FromMask(torch.ones(3, 4, dtype=torch.bool)), r"shape \(3, 4\)"),
        (lambda: aq.FromMask([[1, 0], [0]]), "not a mask"),
        (lambda: pattern_from_dict({"kind": "PerHead"}), "cannot be read"),
        (lambda: pattern_from_dict({"kind": ["x"]}), "kind="),
        (lambda: pattern_from_dict(3), "expected a dictionary"),  # type: ignore[arg-type]
        (lambda: aq.Random(0), "count=0"),
        (lambda: aq.BigBird(4, window=2), "window=2"),
        (lambda: aq.BigBird(4, random=-1), "random=-1"),
        (lambda: aq.Global((3,)).mask(2), "position 3 in a sequence of 2"),
        (lambda: aq.Global(0), "tokens=0"),  # type: ignore[arg-type]
        (lambda: aq.Documents(()), r"lengths=\(\)"),
        (lambda: aq.PerHead(), "one or more Patterns"),
        (lambda: aq.FromMask(torch.ones(3, 3)), "dtype torch.float32"),
        (lambda: aq.Window(2).block_mask(10, 0), "size=0"),
    ],
)
def test_bad_arguments_are_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make()


def test_lists_of_positions_are_taken_as_tuples() -> None:
    assert aq.Global([0, 3]) == aq.Global((0, 3))  # type: ignore[arg-type]
    assert aq.Longformer(2, [0]) == aq.Longformer(2, (0,))  # type: ignore[arg-type]
    assert aq.Documents([3, 4]) == aq.Documents((3, 4))  # type: ignore[arg-type]
    assert Landmarks(spans=[[0, 1]]) == Landmarks(spans=((0, 1),))  # type: ignore[arg-type]
    assert UnevenBlocks([2, 3]) == UnevenBlocks((2, 3))  # type: ignore[arg-type]
    assert hash(aq.Global([0, 3])) == hash(aq.Global((0, 3)))  # type: ignore[arg-type]
