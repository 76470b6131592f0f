"""Gadgets: small pure functions that return layers, each with the argument why it is right."""

from anyseq.construct.gadgets.clip import clip, clip_layers
from anyseq.construct.gadgets.decide import decide
from anyseq.construct.gadgets.erase import erase, erase_layers
from anyseq.construct.gadgets.interpolator import Wiring, interpolate, interpolator_layers
from anyseq.construct.gadgets.quantise import (
    banish,
    banish_ramp,
    narrowest_ramp,
    quantise,
)
from anyseq.construct.gadgets.rescale import rescale, rescaled
from anyseq.construct.gadgets.router import route
from anyseq.construct.gadgets.selector import select
from anyseq.construct.gadgets.shift import global_shift, selective_shifts
from anyseq.construct.gadgets.tournament import tournament
from anyseq.construct.gadgets.units import Units
from anyseq.construct.gadgets.value_map import value_map, written

__all__ = [
    "Units",
    "Wiring",
    "banish",
    "banish_ramp",
    "clip",
    "clip_layers",
    "decide",
    "erase",
    "erase_layers",
    "global_shift",
    "interpolate",
    "interpolator_layers",
    "narrowest_ramp",
    "quantise",
    "rescale",
    "rescaled",
    "route",
    "select",
    "selective_shifts",
    "tournament",
    "value_map",
    "written",
]
