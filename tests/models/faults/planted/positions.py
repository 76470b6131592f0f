"""Layers with other positions than the config says."""

from __future__ import annotations

from typing import Any

from models.faults.planted.families import attentions, config_of, tiny
from models.faults.planted.fault import Model, Planted


def _reversed(faulty: bool) -> Model:
    right = [1, 1, 1, 0]
    model = tiny("smollm3", no_rope_layers=right[::-1] if faulty else right)
    return model, config_of("smollm3", no_rope_layers=right)


def _everywhere(faulty: bool) -> Model:
    model = tiny("cohere2", sliding_window=8)
    attention: Any = attentions(model, 4)[0]
    if faulty:
        attention.sliding_window = 256  # it rotates where there is a window
    return model, None


def _none(faulty: bool) -> Model:
    right = [1, 1, 1, 0]
    model = tiny("llama4_text", no_rope_layers=[0] * 4 if faulty else right)
    return model, config_of("llama4_text", no_rope_layers=right)


FAULTS = [
    Planted(
        "the list of layers without RoPE is read the other way", "smollm3",
        "no_rope_layers says 1 where there is RoPE; the port took it for the layers without.",
        _reversed, "position", (1,), thread="huggingface/transformers#43756",
    ),
    Planted(
        "RoPE in a layer without positions", "cohere2",
        "The fourth layer, which has no window, ought to have no positions; the port rotates in "
        "all layers.",
        _everywhere, "position", (4,), thread="pytorch/executorch#22043",
    ),
    Planted(
        "RoPE is lost in the layers with chunks", "llama4",
        "no_rope_layers was written as zeros; these layers lose their chunks with it.",
        _none, "position", (1, 2, 3), follows=("window",), thread="huggingface/transformers#43756",
    ),
]  # fmt: skip
