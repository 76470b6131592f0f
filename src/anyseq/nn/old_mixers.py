"""`Transformer(mixers=...)`, the spelling before designs had layers; it goes in anyseq 0.2."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from torch import nn

from anyseq.base import one_of
from anyseq.design import ATTENTION, Average, Bilinear, Convolution, Design, Layer
from anyseq.design import Mixer as Described
from anyseq.errors import InvalidArgument
from anyseq.nn.mixers import Mixer

OldMixers = Sequence[str | Mixer] | str

_NAMES: dict[str, str | Described] = {
    "attention": ATTENTION,
    "bilinear": Bilinear(),
    "conv": Convolution(7),
    "average": Average(),
}


def from_old_mixers(
    design: Design, mixers: OldMixers, *, depth: int, dim: int, causal: bool
) -> tuple[Design, list[Mixer | None]]:
    """The design with the layers that `mixers` names, and for each layer the module that was given
    in its place, if any."""
    names = [mixers] if isinstance(mixers, str) else [*mixers]
    if not names or depth % len(names):
        raise InvalidArgument(
            f"mixers: {len(names)} for depth={depth}; expected one per layer, or a number that "
            "divides depth"
        )
    cycle = design.layer_cycle
    layers: list[Layer] = []
    given: list[Mixer | None] = []
    for i in range(depth):
        layer, name = cycle[i % len(cycle)], names[i % len(names)]
        if isinstance(name, str):
            mixer = _NAMES[one_of("mixers", name, _NAMES)]
            other = Layer(mixer=mixer, feedforward=layer.feedforward)
            layers.append(layer if mixer == ATTENTION else other)
            given.append(None)
        else:
            layers.append(layer)
            given.append(_checked(name, dim, causal))
    now = design.with_layers(layers)
    warnings.warn(
        "Transformer(mixers=...) will be an error in anyseq 0.2; the design says it now: "
        f"{_spelled(now)}; to put a module of your own in its place, set "
        "model.blocks[i].mixer = module",
        DeprecationWarning,
        stacklevel=3,
    )
    return now, given


def _spelled(design: Design) -> str:
    """How to write the layers of a design, as far as `mixers` gave them."""
    kinds = [layer.mixer for layer in design.layer_cycle]
    layers = ["Layer(...)" if kind == ATTENTION else f"Layer(mixer={kind!r})" for kind in kinds]
    return f"Design({design.tokens}, layers=[{', '.join(layers)}], ...)"


def _checked(mixer: Mixer, dim: int, causal: bool) -> Mixer:
    if not isinstance(mixer, nn.Module) or not hasattr(mixer, "dim"):
        names = ", ".join(repr(name) for name in _NAMES)
        raise InvalidArgument(f"mixers: {mixer!r}; expected {names}, or a mixer module")
    if mixer.dim != dim:
        raise InvalidArgument(f"mixers: {type(mixer).__name__} has dim {mixer.dim}, expected {dim}")
    if mixer.causal is not causal:
        raise InvalidArgument(
            f"mixers: {type(mixer).__name__} has causal={mixer.causal}, the Transformer has "
            f"causal={causal}; expected equal ones"
        )
    return mixer
