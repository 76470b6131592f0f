"""Patterns layer by layer: what `use` was given, as one pattern for each."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, signature
from typing import Any

import torch

from anyseq.base import whole
from anyseq.errors import InvalidArgument
from anyseq.patterns import Pattern, as_pattern

Patterns = tuple[Pattern | None, ...]
"""One for each self-attention layer; None: as the model has it."""


def by_layer(given: Any, layers: int) -> Patterns:
    """The patterns of so many layers.

    given: one pattern for all; a tuple or list that layers cycle through; {layer: pattern}, where
    the other layers keep what they have; or a function of the number of the layer.
    """
    if isinstance(given, Mapping):
        for layer in given:
            if not -1 < whole("pattern's layer", layer) < layers:
                raise InvalidArgument(
                    f"pattern[{layer}]: the model has the layers 0 to {layers - 1}"
                )
        return tuple(_one(given.get(layer)) for layer in range(layers))
    if isinstance(given, tuple | list):
        if not 0 < len(given) <= layers:
            raise InvalidArgument(
                f"pattern: {len(given)} of them; expected 1 to {layers}, which the {layers} layers "
                "cycle through"
            )
        cycle = [_one(part) for part in given]
        return tuple(cycle[layer % len(cycle)] for layer in range(layers))
    if _takes_a_layer(given):
        return tuple(_one(given(layer)) for layer in range(layers))
    return (_one(given),) * layers


def _one(given: Any) -> Pattern | None:
    return None if given is None else as_pattern(given)


def _takes_a_layer(given: Any) -> bool:
    """A function of one argument: a mask_mod has four."""
    if isinstance(given, Pattern | torch.Tensor | type) or not callable(given):
        return False
    if hasattr(given, "mask_mod"):  # a BlockMask
        return False
    try:
        takes = signature(given).parameters.values()
    except (TypeError, ValueError):  # not every callable tells
        return False
    places = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    needed = [one for one in takes if one.kind in places and one.default is one.empty]
    return len(needed) == 1 and not any(one.kind is one.VAR_POSITIONAL for one in takes)
