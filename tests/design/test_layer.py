import json
from typing import Any

import pytest
import torch
from hypothesis import given

import anyseq as aq
from anyseq.design import ATTENTION, Mixer, layer_text, parse_layer, parse_mixer, resolve_mixer
from anyseq.errors import InvalidArgument
from design.layers import BY_PATTERN, LAYERS, OWN_SIGHT

MIXERS = OWN_SIGHT + BY_PATTERN


@given(LAYERS)
def test_dictionary_round_trip_through_json(layer: aq.Layer) -> None:
    assert aq.Layer.from_dict(json.loads(json.dumps(layer.to_dict()))) == layer


@given(LAYERS)
def test_what_is_said_of_a_layer_can_be_read(layer: aq.Layer) -> None:
    assert parse_layer(layer_text(layer)) == layer


@pytest.mark.parametrize(
    ("text", "layer"),
    [
        ("causal & window(3), rope", aq.Layer(aq.Causal() & aq.Window(3), aq.Rotary())),
        ("causal, none, sinks", aq.Layer(aq.Causal(), sinks=True)),
        ("causal, sinks, none", aq.Layer(aq.Causal(), sinks=True)),
        ("global(0, -1), urpe(rope)", aq.Layer(aq.Global((0, -1)), aq.URPE(aq.Rotary()))),
        ("full, topk(3), no feed-forward", aq.Layer(prob_map=aq.TopK(3), feedforward=False)),
        ("Recurrence", aq.Layer(mixer="recurrence")),
        ("convolution(3)", aq.Layer(mixer=aq.Convolution(3))),
        ("convolution(4, causal)", aq.Layer(mixer=aq.Convolution(4, causal=True))),
        ("linear", aq.Layer(mixer="linear")),
        ("linear(raw), causal", aq.Layer(aq.Causal(), mixer=aq.LinearAttention(normalised=False))),
        ("average, perhead(window(1), full)",
         aq.Layer(aq.PerHead(aq.Window(1), aq.Full()), mixer="average")),
        (" bilinear ,no  feed-forward", aq.Layer(mixer="bilinear", feedforward=False)),
    ],
)  # fmt: skip
def test_layers_in_words(text: str, layer: aq.Layer) -> None:
    assert parse_layer(text) == layer


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "layer '': pattern ''"),
        ("rop", "rop is unknown; there are .*; or a mixer, one of convolution"),
        ("full, up", "position 'up': expected one of none, .*'sinks', 'no feed-forward'"),
        ("full, rope, alibi", "'alibi' is a second position"),
        ("full, sinks, sinks", "'sinks' is a second sinks"),
        ("full, absolute", "acts on the input, before the first layer; give it to the Design"),
        ("full, topk(0)", "k=0"),
        ("recurrence, rope", "that is for attention; expected no position"),
        ("recurrence, sinks", "that is for attention; expected no sinks"),
        ("average, causal, window(2)", "position 'window"),
        ("linear, rope", "rope is unknown"),
        ("convolution", r"mixer 'convolution' cannot be read: expected one of convolution\(3\)"),
        ("convolution(4)", "width=4: expected an odd number"),
        ("convolution(x)", "cannot be read"),
        ("convolution(3", "cannot be read"),
        ("convolution(" + "9" * 5000 + ")", "cannot be read"),
        ("recurrence(3)", "cannot be read"),
        ("linear(causal)", "cannot be read"),
    ],
)
def test_words_that_are_no_layer(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message) as caught:
        parse_layer(text)
    assert f"layer {text!r}: " in str(caught.value)


@pytest.mark.parametrize("mixer", MIXERS, ids=str)
def test_a_mixer_is_read_as_it_is_written(mixer: Mixer) -> None:
    assert parse_mixer(str(mixer)) == mixer
    assert parse_mixer("window(3)") is None


@pytest.mark.parametrize(
    ("layer", "sees"),
    [
        (aq.Layer(aq.Window(2)), aq.Window(2)),
        (aq.Layer(mixer=aq.Convolution(5)), aq.Window(2)),
        (aq.Layer(mixer=aq.Convolution(5, causal=True)), aq.Window(4, 0)),
        (aq.Layer(mixer="recurrence"), aq.Causal()),
        (aq.Layer(aq.Window(2), mixer="linear"), aq.Window(2)),
        (aq.Layer(aq.Window(2), mixer="average"), aq.Window(2)),
        (aq.Layer(mixer="bilinear"), aq.Full()),
    ],
)
def test_what_a_layer_sees(layer: aq.Layer, sees: aq.Pattern) -> None:
    assert layer.sees == sees
    assert layer.attends == (layer.mixer == ATTENTION)


@given(LAYERS)
def test_a_layer_of_the_past_sees_nothing_after_a_token(layer: aq.Layer) -> None:
    past = layer.of_the_past()
    seen = past.sees.mask(9)
    assert not seen.triu(1).any()
    if not isinstance(layer.mixer, aq.Convolution):  # which keeps its width
        assert torch.equal(seen, layer.sees.mask(9).tril())
    assert (past.mixer, past.feedforward) == (layer.mixer, layer.feedforward) or isinstance(
        layer.mixer, aq.Convolution
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"pattern": None}, "pattern=None"),
        ({"pattern": 3}, "pattern=3"),
        ({"position": "rope"}, "position='rope'"),
        ({"position": aq.Absolute()}, "acts on the input"),
        ({"position": aq.URPE(aq.Absolute())}, "acts on the input"),
        ({"prob_map": "max"}, "prob_map='max'"),
        ({"sinks": 1}, "sinks=1: expected True or False"),
        ({"feedforward": None}, "feedforward=None: expected True or False"),
        ({"mixer": "fft"}, "mixer='fft': expected 'attention', 'recurrence'"),
        ({"mixer": 3}, "mixer=3"),
        ({"mixer": "linear", "sinks": True}, r"sinks=True with mixer=LinearAttention"),
        ({"mixer": "average", "position": aq.Rotary()}, "position=Rotary"),
        ({"mixer": "bilinear", "prob_map": "hardmax"}, "prob_map=Hardmax"),
        ({"mixer": "recurrence", "pattern": aq.Causal()}, r"pattern=Causal\(\) with mixer"),
    ],
)
def test_bad_arguments_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        aq.Layer(**values)


@pytest.mark.parametrize("width", [1, 2, 4, 0, 3.0])
def test_widths_without_a_middle_are_refused(width: Any) -> None:
    with pytest.raises(InvalidArgument, match="width="):
        aq.Convolution(width)


def test_mixers_by_name() -> None:
    assert [resolve_mixer(name) for name in ("recurrence", "linear", "average", "bilinear")] == [
        aq.Recurrence(), aq.LinearAttention(), aq.Average(), aq.Bilinear(),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "description",
    [3, {"colour": 1}, {"mixer": {"kind": "Fourier"}}, {"mixer": {"kind": "Average", "width": 1}},
     {"mixer": 3}],
)  # fmt: skip
def test_what_is_no_layer_is_not_read(description: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"layer|mixer"):
        aq.Layer.from_dict(description)
