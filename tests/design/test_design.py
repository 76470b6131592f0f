import json
from typing import Any

import pytest

from anyseq import Absolute, Causal, Design, Full, Hardmax, NoPosition
from anyseq.errors import InvalidArgument


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
        ({"patterns": (3,)}, "pattern=3: expected a Pattern, a mask_mod"),
        ({"patterns": "causal"}, "pattern='causal': expected a Pattern"),
        ({"position": "absolute"}, "position='absolute'"),
        ({"prob_map": "max"}, "prob_map='max'"),
        ({"bos": 1}, "bos=1"),
        ({"final_norm": "batchnorm"}, "final_norm='batchnorm'"),
        ({"depth": 0}, "depth=0"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Design(**{"tokens": 4, **arguments})
    assert message in str(caught.value)


def test_unknown_keys_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="design cannot be read"):
        Design.from_dict({"tokens": 3, "colour": 1})
    with pytest.raises(InvalidArgument, match="design cannot be read"):
        Design.from_dict({})


def test_patterns_see_the_tokens_and_bos() -> None:
    assert (Design(4).size, Design(4, bos=True).size) == (4, 5)
