"""What a method says of its own network: which layers do what, and where to look afterwards.

A stage is data only, so that it is saved with the network and a loaded one can be explained.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from anyseq.errors import InvalidArgument
from anyseq.nn import StackShape

ID = "id"
"""The label of the number by which a token and its sequence are told apart."""

WHOLE = "network"
"""The name of the only stage of a network whose method names none."""


@dataclass(frozen=True)
class Reading:
    """What to read off tokens z: features first, ..., first+count-1; or, with digits, the one
    number Σ digits·features + offset.

    past: if not 0, token i (from 0) knows the first (i+1)·past numbers; the others, which nobody
    uses, are read as 0.
    """

    label: str
    first: int
    count: int
    digits: tuple[float, ...] = ()
    offset: float = 0.0
    past: int = 0

    def __call__(self, z: torch.Tensor) -> torch.Tensor:
        """(tokens, width) -> (tokens, numbers)."""
        part = z[:, self.first : self.first + self.count]
        if not self.digits:
            return self.known(part)
        return part @ part.new_tensor(self.digits)[:, None] + self.offset

    def known(self, numbers: torch.Tensor) -> torch.Tensor:
        """(tokens, numbers) -> the same, 0 where a token does not know them."""
        if not self.past:
            return numbers
        knows = torch.arange(1, len(numbers) + 1)[:, None] * self.past
        return torch.where(torch.arange(numbers.shape[1]) < knows, numbers, 0.0)


@dataclass(frozen=True)
class Stage:
    """Consecutive layers with one purpose.

    layers: how many. does: the purpose in one sentence. reading: what shows that it was reached.
    """

    name: str
    layers: int
    does: str
    reading: Reading


def filled_up(stages: Sequence[Stage], layers: int, reading: Reading) -> tuple[Stage, ...]:
    """These stages of a network of so many layers, and what is left of it: idle layers."""
    idle = layers - sum(stage.layers for stage in stages)
    does = "The design is deeper than the network needs to be."
    return (*stages, Stage("idle", idle, does, reading)) if idle else tuple(stages)


def check_stages(stages: Iterable[Stage], shape: StackShape) -> tuple[Stage, ...]:
    """The stages, if they are those of a network of this shape; if a method names none, all layers
    are one, WHOLE."""
    given = tuple(stages)
    if not given:
        output = Reading("output", 0, shape.out_features)
        return (Stage(WHOLE, shape.layers, "All layers, from input to output.", output),)
    layers = sum(stage.layers for stage in given)
    if layers != shape.layers:
        raise InvalidArgument(f"stages of {layers} layers in all, a network of {shape.layers}")
    for stage in given:
        reading = stage.reading
        inside = reading.first >= 0 and 1 <= reading.count <= shape.width - reading.first
        fits = inside and len(reading.digits) in (0, reading.count) and stage.layers >= 1
        if not fits or reading.past * shape.tokens not in (0, reading.count):
            raise InvalidArgument(f"{stage} does not fit a network of width {shape.width}")
    return given


def stages_from(described: Iterable[Mapping[str, Any]]) -> tuple[Stage, ...]:
    """The stages that `dataclasses.asdict` described."""
    stages = []
    for values in described:
        reading = dict(values["reading"])
        reading["digits"] = tuple(map(float, reading["digits"]))
        stages.append(Stage(**{**values, "reading": Reading(**reading)}))
    return tuple(stages)
