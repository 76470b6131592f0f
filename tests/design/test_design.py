import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from anyseq import (
    URPE,
    Absolute,
    Causal,
    Design,
    Full,
    Hardmax,
    Layer,
    NoPosition,
    Rotary,
    TopK,
    Window,
)
from anyseq.errors import InvalidArgument
from design.layers import DESIGNS


def test_one_spelling_of_each_design() -> None:
    assert Design(4) == Design(4, patterns=(Full(),), position=Absolute(), prob_map="softmax")
    assert hash(Design(4)) == hash(Design(4, patterns=Full()))
    assert Design(4) != Design(4, position=NoPosition())


@pytest.mark.parametrize(
    "design",
    [
        Design(4),
        Design(
            5,
            patterns=(Causal(), ~Causal()),
            position=NoPosition(),
            prob_map=Hardmax(),
            feedforward=False,
            bos=True,
            sinks=True,
            final_norm="rmsnorm",
            depth=3,
        ),
    ],
)
def test_dictionary_round_trip_through_json(design: Design) -> None:
    assert Design.from_dict(json.loads(json.dumps(design.to_dict()))) == design


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tokens": 0}, "tokens=0"),
        ({"tokens": 2.0}, "tokens=2.0"),
        ({"patterns": ()}, "patterns=()"),
        ({"patterns": (3,)}, "pattern=3: expected a Pattern, its text, a mask_mod"),
        ({"patterns": "windw"}, "windw is unknown; there are"),
        ({"position": "absolute"}, "position='absolute'"),
        ({"prob_map": "max"}, "prob_map='max'"),
        ({"bos": 1}, "bos=1"),
        ({"final_norm": "batchnorm"}, "final_norm='batchnorm'"),
        ({"depth": 0}, "depth=0"),
        ({"block_norm": "both"}, "block_norm='both'"),
        ({"head": 1}, "head=1"),
        ({"domain": "words"}, "domain='words'"),
        ({"readout": 4}, "readout=4: expected 'all', 'last' or a position from 0 to 3"),
        ({"readout": True}, "readout=True"),
        ({"readout": "first"}, "readout='first'"),
        ({"layers": ()}, "layers=()"),
        ({"layers": [3]}, "layers=[3]"),
        ({"layers": Layer()}, "layers=Layer("),
        ({"layers": [Layer()], "patterns": Full()}, "patterns: given beside layers"),
        ({"layers": [Layer()], "sinks": False}, "sinks: given beside layers"),
        ({"layers": [Layer()], "prob_map": "softmax"}, "prob_map: given beside layers"),
        ({"layers": [Layer()], "feedforward": True}, "feedforward: given beside layers"),
        ({"layers": [Layer()], "position": Rotary()}, "acts inside attention"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Design(**{"tokens": 4, **arguments})
    assert message in str(caught.value)


@given(DESIGNS)
def test_designs_of_layers_through_json(design: Design) -> None:
    assert Design.from_dict(json.loads(json.dumps(design.to_dict()))) == design
    again = design.with_layers(design.layer_cycle)
    assert again == design
    assert hash(again) == hash(design)


@given(DESIGNS)
def test_equal_designs_have_one_spelling(design: Design) -> None:
    """Twice through the cycle is the same cycle; layers that are alike but for their patterns are
    the short form."""
    assert design.with_layers(design.layer_cycle * 2) == design
    cycle = design.layer_cycle
    alike = all(replace(one, pattern=Full()) == replace(cycle[0], pattern=Full()) for one in cycle)
    short = design.layers is None
    assert not short or (alike and cycle[0].attends)
    positions = NoPosition() in (design.input_position, cycle[0].position)
    if alike and cycle[0].attends and positions:
        assert short
        assert design == Design(
            design.tokens,
            tuple(layer.pattern for layer in cycle),
            design.position,
            **{name: getattr(design, name) for name in ("prob_map", "feedforward", "sinks", *REST)},
        )


REST = ("bos", "final_norm", "depth", "block_norm", "head", "domain", "readout")


def test_the_two_forms_meet() -> None:
    layers = [Layer(Window(2), Rotary()), Layer(Causal(), Rotary())]
    long = Design(8, layers=layers, position=NoPosition())
    assert long == Design(8, (Window(2), Causal()), Rotary())
    assert long.layers is None
    assert list(long.layer_cycle) == layers
    mixed = Design(8, layers=[Layer(position=URPE(NoPosition()))])
    assert mixed == Design(8, position=URPE(Absolute()))
    assert mixed.input_position == Absolute()
    apart = Design(8, layers=[Layer(position=Rotary()), Layer()])
    assert (apart.position, apart.input_position, apart.layers) == (
        Absolute(), Absolute(), (Layer(position=Rotary()), Layer()),
    )  # fmt: skip
    assert apart.turned(1) == Design(8, layers=[Layer(), Layer(position=Rotary())])


OLD = {
    "tokens": 4,
    "patterns": [
        {"kind": "Intersection", "parts": [{"kind": "Causal"}, {"kind": "Window", "radius": 2}]},
        {"kind": "Full"},
    ],
    "position": {"kind": "URPE", "base": {"kind": "Absolute"}, "shared": True},
    "prob_map": {"kind": "topk", "k": 3},
    "feedforward": True,
    "bos": True,
    "sinks": False,
    "final_norm": "rmsnorm",
    "depth": None,
}
"""As designs were written before they had layers."""


def test_a_design_of_before_layers_is_read_and_written_as_it_was() -> None:
    design = Design.from_dict(OLD)
    assert design == Design(
        4,
        (Causal() & Window(2), Full()),
        URPE(Absolute()),
        prob_map=TopK(3),
        bos=True,
        final_norm="rmsnorm",
    )
    assert design.to_dict() == OLD


def test_unknown_keys_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="design cannot be read"):
        Design.from_dict({"tokens": 3, "colour": 1})
    with pytest.raises(InvalidArgument, match="design cannot be read"):
        Design.from_dict({})


def test_patterns_see_the_tokens_and_bos() -> None:
    assert (Design(4).size, Design(4, bos=True).size) == (4, 5)
