"""Families of Hugging Face models, read, beside what a person wrote down from their source."""

from __future__ import annotations

import pytest
from transformers import CONFIG_MAPPING

import anyseq as aq
from anyseq.models.families import CHECKED
from models.expected import EXPECTED, Stack


def test_every_checked_family_is_here() -> None:
    assert {key.split(",")[0] for key in EXPECTED} == CHECKED


@pytest.mark.parametrize("key", EXPECTED)
def test_layers_are_those_that_a_person_wrote_down(key: str) -> None:
    expected = EXPECTED[key]
    config = CONFIG_MAPPING[key.split(",")[0]](**expected.config)
    tokens = 1024 if key.startswith("big_bird") else None  # shorter ones are full
    reading = aq.read(config, tokens)
    assert not expected.unknown or any(expected.unknown in why for why in reading.unknown)
    if expected.stack is None:
        assert reading.design is None
        return
    assert reading.design is not None, reading.unknown
    same(reading.design, expected.stack)
    if expected.decoder is not None:
        same(reading.parts["decoder"], expected.decoder)


def same(design: aq.Design, stack: Stack) -> None:
    cycle = design.layer_cycle
    assert design.depth == len(stack.layers)
    for number, layer in enumerate(stack.layers):
        assert cycle[number % len(cycle)] == layer, f"layer {number + 1}"
    assert design.input_position == stack.position
    assert design.block_norm == stack.block_norm
    assert design.final_norm == stack.final_norm
