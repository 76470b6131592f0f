import json
import math
from importlib import import_module
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.positions import (
    NTK,
    Linear,
    Llama3,
    Place,
    Position,
    RotaryScaling,
    Toeplitz,
    YaRN,
    position_from_dict,
)

PLACES = {
    aq.NoPosition(): set(),
    aq.Absolute(): {Place.INPUT},
    aq.Sinusoidal(100.0): {Place.INPUT},
    aq.Rotary(500.0): {Place.QUERY_KEY},
    aq.Shaw(3): {Place.QUERY_KEY},
    aq.ALiBi(): {Place.BIAS},
    aq.T5Bias(8, 20, False): {Place.BIAS},
    aq.RelativeBias(): {Place.BIAS},
    aq.GridBias((4, 3)): {Place.BIAS},
    aq.URPE(): {Place.BIAS, Place.GAIN},
    aq.URPE(aq.Rotary(), shared=False): {Place.QUERY_KEY, Place.GAIN},
    aq.URPE(aq.Absolute()): {Place.INPUT, Place.GAIN},
}


@pytest.mark.parametrize(
    ("position", "places"), PLACES.items(), ids=lambda value: type(value).__name__
)
def test_each_says_where_it_acts(position: Position, places: set[Place]) -> None:
    assert position.acts_in == places


@pytest.mark.parametrize("position", PLACES, ids=str)
def test_dictionary_round_trip_through_json(position: Position) -> None:
    assert position_from_dict(json.loads(json.dumps(position.to_dict()))) == position


@pytest.mark.parametrize(
    "description",
    [
        {"kind": "Rotated"},
        {"kind": "ToeplitzBias"},
        {"kind": ["x"]},
        {"kind": "Absolute", "base": 3},
        {"kind": "URPE", "base": {"kind": "Rotated"}},
        {"kind": "URPE", "base": 3},
        "Absolute",
    ],
)
def test_unknown_descriptions_are_refused(description: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"position|base=3"):
        position_from_dict(description)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: aq.Sinusoidal(0.0), "base=0.0"),
        (lambda: aq.Rotary(-1.0), "base=-1.0"),
        (lambda: aq.Shaw(0), "max_distance=0"),
        (lambda: aq.T5Bias(buckets=2), "buckets=2"),
        (lambda: aq.T5Bias(buckets=7), "buckets=7"),
        (lambda: aq.T5Bias(max_distance=8), "max_distance=8: expected more than 8"),
        (lambda: aq.URPE(aq.URPE()), "other than URPE"),
        (lambda: position_from_dict({"kind": "URPE", "shared": 1}), "shared=1"),
        (lambda: aq.ALiBi().slopes(0), "heads=0"),
    ],
)
def test_bad_arguments_are_named(make: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make()


@pytest.mark.parametrize("width", [1, 4, 7])
def test_sinusoids_are_the_formula(width: int) -> None:
    table = aq.Sinusoidal(base=50.0).table(torch.arange(5, dtype=torch.float64) + 3, width)
    for row, p in enumerate(range(3, 8)):
        for feature in range(width):
            angle = p / 50.0 ** (2 * (feature // 2) / width)
            expected = math.cos(angle) if feature % 2 else math.sin(angle)
            assert float(table[row, feature]) == pytest.approx(expected, abs=1e-14)


def test_rotary_turns_planes() -> None:
    size, first = 6, 4
    x = torch.randn(3, size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    turned = aq.Rotary(base=100.0).turn(x, first)
    for row in range(3):
        for t in range(size // 2):
            # one plane as a complex number, turned by its angle
            angle = (first + row) * 100.0 ** (-2 * t / size)
            plane = complex(x[row, t], x[row, t + 3]) * complex(math.cos(angle), math.sin(angle))
            got = complex(turned[row, t], turned[row, t + 3])
            assert got == pytest.approx(plane, abs=1e-14)


def test_rotary_scores_depend_on_the_offset_only() -> None:
    rng = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 8, generator=rng, dtype=torch.float64)
    turn = aq.Rotary().turn

    def score(i: int, j: int) -> float:
        return float((turn(q, i) * turn(k, j)).sum())

    assert score(9, 4) == pytest.approx(score(105, 100), abs=1e-12)
    assert abs(score(9, 4) - score(9, 5)) > 1e-3


@given(
    st.sampled_from([(32, 128), (8, 20), (6, 16), (64, 256)]),
    st.booleans(),
    st.integers(-1000, 1000),
)
def test_t5_buckets_are_those_of_hugging_face(
    sizes: tuple[int, int], bidirectional: bool, start: int
) -> None:
    buckets, max_distance = sizes
    offset = torch.arange(start, start + 50)
    t5 = import_module("transformers.models.t5.modeling_t5")
    theirs = t5.T5Attention._relative_position_bucket(-offset, bidirectional, buckets, max_distance)
    ours = aq.T5Bias(buckets, max_distance, bidirectional).label(offset)
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("heads", [1, 2, 8, 16])
def test_slopes_of_powers_of_two(heads: int) -> None:
    expected = [2.0 ** (-8 * (h + 1) / heads) for h in range(heads)]
    assert aq.ALiBi().slopes(heads) == pytest.approx(expected, rel=1e-15)


def test_slopes_of_other_numbers() -> None:
    eight = [2.0**-k for k in range(1, 9)]
    sixteen = [2.0 ** (-k / 2) for k in range(1, 17)]
    assert aq.ALiBi().slopes(12) == pytest.approx(eight + sixteen[0:8:2], rel=1e-15)
    assert aq.ALiBi().slopes(3) == pytest.approx([2.0**-4, 2.0**-8, 2.0**-2], rel=1e-15)


def test_labels() -> None:
    offset = torch.arange(-4, 5)
    assert aq.ALiBi().label(offset).tolist() == [4, 3, 2, 1, 0, 1, 2, 3, 4]
    assert aq.RelativeBias().label(offset).tolist() == offset.tolist()
    assert aq.Shaw(2).label(offset).tolist() == [0, 0, 0, 1, 2, 3, 4, 4, 4]


def test_toeplitz_entries_and_offset() -> None:
    table = Toeplitz(torch.arange(7.0)[None])  # n = 4: offset 0 is 3
    assert table.dense(rows=2, columns=4, first_row=2).tolist() == [[[5, 4, 3, 2], [6, 5, 4, 3]]]


@pytest.mark.parametrize(
    ("rows", "columns", "first"), [(4, 4, 0), (2, 4, 2), (1, 3, 3), (4, 1, 0), (0, 2, 1), (2, 0, 0)]
)
def test_toeplitz_is_a_look_up_by_offset(rows: int, columns: int, first: int) -> None:
    """In value and gradient."""
    rng = torch.Generator().manual_seed(0)
    table = torch.randn(3, 7, generator=rng, dtype=torch.float64, requires_grad=True)
    i, j = torch.arange(first, first + rows), torch.arange(columns)
    wanted = table[:, i[:, None] - j + 3]
    found = Toeplitz(table).dense(rows, columns, first)
    assert torch.equal(found, wanted)
    weight = torch.randn(found.shape, generator=rng, dtype=torch.float64)
    gradients = [torch.autograd.grad((one * weight).sum(), table)[0] for one in (found, wanted)]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)


def test_places_that_are_kept_are_numbers() -> None:
    """A table seen first by a tracer leaves nothing behind for real ones."""
    with FakeTensorMode():
        assert Toeplitz(torch.zeros(1, 13)).dense(6, 7).shape == (1, 6, 7)
    assert Toeplitz(torch.arange(13.0)[None]).dense(6, 7)[0, 5, 0] == 11


def test_toeplitz_refuses_what_it_does_not_cover() -> None:
    with pytest.raises(InvalidArgument, match="odd number of offsets"):
        Toeplitz(torch.zeros(1, 4))
    with pytest.raises(InvalidArgument, match="offsets up to 1, but the sequence has offset 2"):
        Toeplitz(torch.zeros(1, 3)).dense(3, 3)


SCALINGS = {
    Linear(4.0): {"rope_type": "linear", "factor": 4.0},
    Llama3(8.0, 32): {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
    YaRN(4.0, 64): {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    YaRN(16.0, 32, 8.0, 2.0, 1.5, False): {
        "rope_type": "yarn",
        "factor": 16.0,
        "beta_fast": 8.0,
        "beta_slow": 2.0,
        "attention_factor": 1.5,
        "truncate": False,
        "original_max_position_embeddings": 32,
    },
}


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("scaling", SCALINGS, ids=str)
@pytest.mark.filterwarnings("ignore")  # transformers' words on factors and lengths
def test_scaled_angles_are_those_of_trained_models(scaling: RotaryScaling, share: float) -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    given = SCALINGS[scaling] | {"rope_theta": 500.0}
    config = LlamaConfig(
        hidden_size=64,
        num_attention_heads=4,
        head_dim=int(16 * share),
        max_position_embeddings=512,
        rope_parameters=given,
    )
    x = torch.randn(1, 2, 40, 16, generator=torch.Generator().manual_seed(0))
    size = int(16 * share)
    cos, sin = LlamaRotaryEmbedding(config)(x, torch.arange(40)[None])
    turned, _ = apply_rotary_pos_emb(x[..., :size], x[..., :size], cos, sin)
    wanted = torch.cat([turned, x[..., size:]], -1)
    position = aq.Rotary(500.0, share=share, scaling=scaling)
    torch.testing.assert_close(position.turn(x, 0), wanted, rtol=0, atol=2e-5)
    assert position_from_dict(json.loads(json.dumps(position.to_dict()))) == position


def test_ntk_keeps_the_fastest_plane_and_slows_the_slowest_down() -> None:
    omega = 100.0 ** -(torch.arange(4, dtype=torch.float64) / 4)
    found = NTK(8.0).scaled(omega, 100.0)
    base = 100.0 * 8.0 ** (8 / 6)  # the base for 8 features
    torch.testing.assert_close(found, base ** -(torch.arange(4, dtype=torch.float64) / 4))
    torch.testing.assert_close(found[-1] * 8, omega[-1])
    assert torch.equal(NTK(8.0).scaled(omega[:1], 100.0), omega[:1])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Linear(0.5), r"factor=0\.5: expected a number from 1 on"),
        (lambda: YaRN(2.0, beta_fast=1.0, beta_slow=2.0), "expected slow <= fast"),
        (lambda: Llama3(2.0, low_frequency=4.0), "expected low < high"),
        (lambda: aq.Rotary(share=1.5), r"share=1\.5: expected a number in \(0, 1\]"),
        (lambda: aq.Rotary(scaling=cast("Any", 4.0)), r"scaling=4\.0: expected a scaling such as"),
        (lambda: aq.Rotary(scaling=cast("Any", {"kind": "Dynamic"})), "scaling kind='Dynamic'"),
    ],
)
def test_wrong_scalings_are_named(wrong: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        wrong()
