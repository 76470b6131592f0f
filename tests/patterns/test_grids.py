"""Patterns on arrays: against loops over cells, Swin's own way of rolling and masking, and NATTEN's
rule; their blocks; attention through their tiles."""

from collections.abc import Callable
from itertools import product
from math import prod

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.patterns import GridPattern, Pattern, parse_pattern, pattern_from_dict, pattern_text
from ops.cases import random

SHAPES = [(1, 1), (3, 4), (5, 7), (8, 8), (2, 9), (3, 4, 5), (1, 5, 2), (6,)]


def cells(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(product(*map(range, shape)))


def by_loops(shape: tuple[int, ...], allowed: Callable[..., bool]) -> torch.Tensor:
    """The mask of a rule for (cell of an axis, cell, length of the axis, its number)."""
    return torch.tensor(
        [
            [
                all(allowed(i[axis], j[axis], n, axis) for axis, n in enumerate(shape))
                for j in cells(shape)
            ]
            for i in cells(shape)
        ]
    )


@pytest.mark.parametrize("radius", [0, 1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_neighbourhoods_are_their_definition(shape: tuple[int, ...], radius: int) -> None:
    expected = by_loops(shape, lambda a, b, n, axis: abs(a - b) <= radius)
    assert torch.equal(aq.Neighbourhood(shape, radius).mask(prod(shape)), expected)


def test_a_radius_for_each_axis() -> None:
    expected = by_loops((4, 5), lambda a, b, n, axis: abs(a - b) <= (1, 2)[axis])
    assert torch.equal(aq.Neighbourhood((4, 5), (1, 2)).mask(20), expected)


def natten(a: int, b: int, length: int, kernel: int) -> bool:
    """NATTEN's window: it starts half a kernel before the query, and inside the axis."""
    start = max(a - kernel // 2, 0)
    if a + kernel // 2 >= length:
        start = length - kernel
    return start <= b < start + kernel


@pytest.mark.parametrize(("shape", "radius"), [((5, 7), 2), ((3, 4), 1), ((3, 5, 4), 1), ((9,), 4)])
def test_neighbourhoods_moved_inside_are_those_of_natten(
    shape: tuple[int, ...], radius: int
) -> None:
    pattern = aq.Neighbourhood(shape, radius, border="shift")
    mask = pattern.mask(prod(shape))
    kernel = 2 * radius + 1
    assert torch.equal(mask, by_loops(shape, lambda a, b, n, axis: natten(a, b, n, kernel)))
    assert (mask.sum(1) == kernel ** len(shape)).all()


def swin(shape: tuple[int, ...], size: tuple[int, ...], shift: tuple[int, ...]) -> torch.Tensor:
    """As Swin does it: roll the array back by `shift`, cut it into windows, mask what comes from
    different regions of the rolled array; axes are multiples of `size`."""
    axes = tuple(range(len(shape)))
    token = torch.arange(prod(shape)).view(shape).roll([-s for s in shift], axes)
    region, window = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape, dtype=torch.int64)
    for cell in cells(shape):
        places, where = [], []
        for c, n, w, s in zip(cell, shape, size, shift, strict=True):
            places.append(c // w)
            where.append(0 if s == 0 or c < n - w else 1 if c < n - s else 2)
        window[cell] = hash(tuple(places))
        region[cell] = hash(tuple(where))
    order = token.flatten().argsort()
    window, region = window.flatten()[order], region.flatten()[order]
    return (window[:, None] == window) & (region[:, None] == region)


@pytest.mark.parametrize(
    ("shape", "size", "shift"),
    [
        ((8, 8), (4, 4), (0, 0)),
        ((8, 8), (4, 4), (2, 2)),
        ((6, 9), (3, 3), (1, 1)),
        ((4, 6, 4), (2, 3, 2), (1, 1, 0)),
        ((4, 6), (4, 2), (1, 1)),
    ],
)
def test_shifted_windows_are_swins(
    shape: tuple[int, ...], size: tuple[int, ...], shift: tuple[int, ...]
) -> None:
    pattern = aq.ShiftedWindows(shape, size, shift)
    assert torch.equal(pattern.mask(prod(shape)), swin(shape, size, shift))


@pytest.mark.parametrize("shape", SHAPES)
def test_windows_at_the_ends_may_be_shorter(shape: tuple[int, ...]) -> None:
    expected = by_loops(shape, lambda a, b, n, axis: (a - 1) // 3 == (b - 1) // 3)
    assert torch.equal(aq.ShiftedWindows(shape, 3, 1).mask(prod(shape)), expected)


shapes = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple)


@st.composite
def grids(draw: st.DrawFn) -> GridPattern:
    shape: tuple[int, ...] = draw(shapes)
    if draw(st.booleans()):
        size = draw(st.integers(1, 6))
        return aq.ShiftedWindows(shape, size, draw(st.integers(0, size - 1)))
    radii = tuple(draw(st.integers(0, 4)) for _ in shape)
    fits = all(2 * radius < length for radius, length in zip(radii, shape, strict=True))
    return aq.Neighbourhood(shape, radii, "shift" if fits and draw(st.booleans()) else "cut")


@settings(max_examples=100)
@given(grids(), st.sampled_from([4, 16, 32]))
def test_blocks_are_known_exactly(pattern: GridPattern, size: int) -> None:
    n = pattern.natural_length
    bounds, mask = pattern.blocks(n, size), pattern.mask(n)
    for row, rows in enumerate(mask.split(size)):
        for column, block in enumerate(rows.split(size, 1)):
            assert bounds.some_sure[row, column] == bounds.some_maybe[row, column] == block.any()
            assert bounds.all_sure[row, column] == bounds.all_maybe[row, column] == block.all()
    assert torch.equal(pattern.edges(n), mask.nonzero().T)


@settings(max_examples=100)
@given(grids())
def test_patches_hold_every_pair(pattern: GridPattern) -> None:
    n = pattern.natural_length
    mask, seen = pattern.mask(n), []
    for queries, keys in pattern.patches():
        seen.append(queries)
        others = torch.ones(n, dtype=torch.bool)
        others[keys] = False
        assert not mask[queries][:, others].any()
    assert torch.cat(seen).sort().values.tolist() == list(range(n)), "every token once"


ATTENDED: list[Pattern] = [
    aq.Neighbourhood((12, 13), 2),
    aq.Neighbourhood((12, 13), 2, "shift"),
    aq.Neighbourhood((12, 13), (0, 3)),
    aq.ShiftedWindows((12, 13), 4, 2),
    aq.ShiftedWindows((3, 4, 13), (2, 4, 5), (1, 0, 3)),
    aq.Neighbourhood((3, 4, 13), 1),
    aq.Neighbourhood((12, 13), 1) | aq.Global((0,)),
    aq.ShiftedWindows((12, 13), 4) & aq.Causal(),
    aq.ShiftedWindows((12, 13), 6) & aq.Neighbourhood((12, 13), 2) | aq.Window(3),
    aq.PerHead(aq.ShiftedWindows((12, 13), 4), aq.ShiftedWindows((12, 13), 4, 2)),
]


@pytest.mark.parametrize("backend", ["native", "tiles"])
@pytest.mark.parametrize("pattern", ATTENDED, ids=pattern_text)
def test_attention_is_the_formula(pattern: Pattern, backend: str) -> None:
    inputs = [random(2, 2, 156, 5, seed=seed).requires_grad_() for seed in range(3)]
    found = []
    for name in (backend, "reference"):
        out = aq.attention(*inputs, pattern=pattern, backend=name)
        found.append([out, *torch.autograd.grad(out.sin().sum(), inputs)])
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    "pattern", ["neighbourhood((32, 32), 2)", "shiftedwindows((32, 32), 8, 4)"]
)
def test_they_cost_what_they_connect(pattern: str) -> None:
    q = torch.zeros(1, 1, 1024, 4)
    plan = aq.attention_plan(q, q, q, pattern=pattern, backend="tiles")
    connections = parse_pattern(pattern).edges(1024).shape[1]
    assert connections <= plan.scores < 0.12 * 1024**2


def test_large_arrays_need_no_dense_mask() -> None:
    for pattern in (aq.Neighbourhood((256, 512), 3), aq.ShiftedWindows((32, 64, 64), 8, 4)):
        mask = pattern.block_mask(131_072)
        assert mask.full_kv_num_blocks is not None
        assert int(mask.kv_num_blocks.sum() + mask.full_kv_num_blocks.sum()) > 0


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("neighbourhood((8, 8), 1)", aq.Neighbourhood((8, 8), 1)),
        ("neighbourhood((2, 8, 8), (0, 1, 1))", aq.Neighbourhood((2, 8, 8), (0, 1, 1))),
        ("neighbourhood((8, 8), 1, 'shift')", aq.Neighbourhood((8, 8), 1, "shift")),
        ("shifted_windows((8, 8), 4, 2)", aq.ShiftedWindows((8, 8), 4, 2)),
    ],
)
def test_written_and_read(text: str, pattern: Pattern) -> None:
    assert parse_pattern(text) == pattern
    assert parse_pattern(pattern_text(pattern)) == pattern
    assert pattern_from_dict(pattern.to_dict()) == pattern
    assert hash(pattern_from_dict(pattern.to_dict())) == hash(pattern)


def test_one_spelling() -> None:
    assert aq.Neighbourhood([4, 4], [1, 1]) == aq.Neighbourhood((4, 4), 1)  # type: ignore[arg-type]
    assert aq.ShiftedWindows((4, 4), (2, 2), (1, 1)) == aq.ShiftedWindows((4, 4), 2, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: aq.Neighbourhood((), 1), r"shape=\(\): expected the length of each axis"),
        (lambda: aq.Neighbourhood(8, 1), "shape=8: expected the length"),  # type: ignore[arg-type]
        (lambda: aq.Neighbourhood((8, 0), 1), "shape=0"),
        (lambda: aq.Neighbourhood((8, 8), -1), "radius=-1"),
        (lambda: aq.Neighbourhood((8, 8), (1, 1, 1)), "one for each of the 2 axes"),
        (lambda: aq.Neighbourhood((8, 8), 1, "wrap"), "border='wrap'"),
        (lambda: aq.Neighbourhood((8, 4), 2, "shift"), "5 cells on an axis of 4"),
        (lambda: aq.ShiftedWindows((8, 8), 0), "size=0"),
        (lambda: aq.ShiftedWindows((8, 8), 4, 4), "shift=4: expected less than size=4"),
        (lambda: aq.Neighbourhood((8, 8), 1).mask(63), "64 tokens, the sequence has 63"),
    ],
)
def test_bad_arguments_are_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make()


def test_a_sequence_of_another_length_is_refused() -> None:
    q = torch.zeros(1, 1, 63, 4)
    with pytest.raises(InvalidArgument, match="Neighbourhood fits 64 tokens, the sequence has 63"):
        aq.attention(q, q, q, pattern=aq.Neighbourhood((8, 8), 1))
