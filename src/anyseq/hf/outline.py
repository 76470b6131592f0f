"""What one family of Hugging Face models says of its attention, and the words for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anyseq.base import at_least_one
from anyseq.patterns import Blocks, Causal, Full, Pattern, Window, pattern_text
from anyseq.positions import Position, Rotary

POST_NORM = "every block ends with a layer norm with learned scale and bias"
LAYER_NORM = "a last layer norm with learned scale and bias"
RMS_NORM = "a last RMS norm with learned scale"
NO_BOS = "BOS: the model adds none; a tokenizer may"


@dataclass(frozen=True)
class Outline:
    """Attention as a family describes it.

    position: None if no Position describes it; then `unsure` says why.
    layers: the pattern of each layer.
    facts, unsure: as in `Reading`. sinks: a learned score takes weight in every layer.
    """

    position: Position | None
    layers: tuple[Pattern, ...]
    facts: tuple[str, ...]
    unsure: tuple[str, ...]
    sinks: bool = False


def seen_before(window: int | None) -> Pattern:
    """A token sees itself and the window - 1 tokens before it: transformers' sliding windows let
    i see j where i - window < j <= i. None: all tokens before it."""
    if window is None:
        return Causal()
    at_least_one("sliding_window", window)  # on others transformers fails
    return Causal() & Window(window - 1) if window > 1 else Blocks(1)


def seen_around(window: int | None) -> Pattern:
    """A token sees those less than `window` places away, on both sides. None: all tokens."""
    if window is None:
        return Full()
    at_least_one("sliding_window", window)
    return Window(window - 1) if window > 1 else Blocks(1)


def sliding(config: Any, causal: bool) -> tuple[Pattern, ...]:
    """The patterns of a config that says in `layer_types` which layers have the window."""
    see = seen_before if causal else seen_around
    kinds = {"full_attention": None, "sliding_attention": config.sliding_window}
    return tuple(see(kinds[kind]) for kind in config.layer_types)


def describe(cycle: Sequence[Pattern]) -> str:
    """Who sees whom in the layers of a cycle, equal neighbours together."""
    words: list[str] = []
    first = 0
    for layer, pattern in enumerate(cycle, start=1):
        if layer < len(cycle) and cycle[layer] == pattern:
            continue
        span = f"layer {layer}" if layer == first + 1 else f"layers {first + 1}-{layer}"
        words.append(f"{span}: {pattern_text(pattern)}")
        first = layer
    if len(cycle) == 1:
        return f"pattern: {pattern_text(cycle[0])}"
    return f"patterns, in turn: {', '.join(words)}"


def shortest_cycle(layers: tuple[Pattern, ...]) -> tuple[Pattern, ...]:
    """The shortest beginning that gives all layers when it is repeated."""
    for length in range(1, len(layers)):
        if all(pattern == layers[i % length] for i, pattern in enumerate(layers)):
            return layers[:length]
    return layers


def rotary(config: Any) -> tuple[Rotary, str]:
    """The rotary encoding, and what is to be said about it.

    Scalings and several bases change angles only: q_i·k_j still depends on i and j through i - j.
    """
    given = config.rope_parameters
    # One for each kind of layer, or one for all. transformers 5.8 puts an empty one for all beside
    # those of Gemma 3, which the model does not read.
    kinds = {kind: one for kind, one in given.items() if isinstance(one, dict)} or {"": given}
    said = [one["rope_theta"] for one in kinds.values()]
    bases = {float(base) for base in said if base is not None} or {Rotary().base}
    scalings = {one.get("rope_type", "default") for one in kinds.values()} - {"default"}
    fact = "positions: rotary, base " + " and ".join(f"{base:,.0f}" for base in sorted(bases))
    if scalings:
        fact += f", scaled by {', '.join(sorted(scalings))}"
    return Rotary(max(bases)), fact
