"""Gadgets: small pure functions that return layers, each with its proof of correctness."""

from anyseq.construct.gadgets.blank import closed, idle, rows, widened
from anyseq.construct.gadgets.carry import carry, take_above
from anyseq.construct.gadgets.clear import clear
from anyseq.construct.gadgets.clip import clip, clip_layers
from anyseq.construct.gadgets.clipped_selector import select_clipped
from anyseq.construct.gadgets.colour import into_colours
from anyseq.construct.gadgets.decide import deciding_gap
from anyseq.construct.gadgets.erase import erase, erase_layers
from anyseq.construct.gadgets.fill import fill
from anyseq.construct.gadgets.gains import (
    CONSTANT,
    gains_for,
    positions_from_gain,
    settle,
    settle_layers,
)
from anyseq.construct.gadgets.hats import Hats, HatWiring
from anyseq.construct.gadgets.interpolator import (
    Wiring,
    interpolate,
    least_hidden,
    mixed_differences,
    summable,
)
from anyseq.construct.gadgets.quantise import banish, banish_ramp, narrowest_ramp, quantise
from anyseq.construct.gadgets.rescale import rescale, rescaled
from anyseq.construct.gadgets.router import route
from anyseq.construct.gadgets.selector import select
from anyseq.construct.gadgets.set_apart import keep_own, set_apart
from anyseq.construct.gadgets.shift import all_max_shift, global_shift, selective_shifts
from anyseq.construct.gadgets.units import Units
from anyseq.construct.gadgets.value_map import value_map, written
from anyseq.construct.gadgets.windows import Room, windows

__all__ = [
    "CONSTANT",
    "HatWiring",
    "Hats",
    "Room",
    "Units",
    "Wiring",
    "all_max_shift",
    "banish",
    "banish_ramp",
    "carry",
    "clear",
    "clip",
    "clip_layers",
    "closed",
    "deciding_gap",
    "erase",
    "erase_layers",
    "fill",
    "gains_for",
    "global_shift",
    "idle",
    "interpolate",
    "into_colours",
    "keep_own",
    "least_hidden",
    "mixed_differences",
    "narrowest_ramp",
    "positions_from_gain",
    "quantise",
    "rescale",
    "rescaled",
    "route",
    "rows",
    "select",
    "select_clipped",
    "selective_shifts",
    "set_apart",
    "settle",
    "settle_layers",
    "summable",
    "take_above",
    "value_map",
    "widened",
    "windows",
    "written",
]
