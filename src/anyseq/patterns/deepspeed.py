"""Sparse-attention configurations of DeepSpeed, read as patterns.

The layouts are those that DeepSpeed's `make_layout` makes, at the level of blocks: tokens of one
block attend to each other, even in "unidirectional" layouts, for which DeepSpeed expects a token
mask besides (here: `from_deepspeed(...) & Causal()`). Where a unidirectional layout of DeepSpeed
attends to later blocks (several global blocks side by side; random blocks of "variable"), so does
this one. Random blocks are drawn by a different generator: as many of them, but not the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anyseq.base import at_least_one, one_of, whole
from anyseq.errors import InvalidArgument
from anyseq.patterns.coarse import Coarse
from anyseq.patterns.factored import Blocks
from anyseq.patterns.layouts import Landmarks, PeriodicLandmarks, RandomPast, UnevenBlocks
from anyseq.patterns.offsets import Causal, Full, Window
from anyseq.patterns.pattern import Pattern
from anyseq.patterns.per_head import PerHead
from anyseq.patterns.random import Random

_DIRECTIONS = ("bidirectional", "unidirectional")

_COMMON: dict[str, Any] = {"mode": "fixed", "block": 16, "different_layout_per_head": False}
_DIRECTION: dict[str, Any] = {"attention": "bidirectional"}
_PLACES: dict[str, Any] = {"global_block_indices": [0], "global_block_end_indices": None}
_FIXED: dict[str, Any] = {
    "num_local_blocks": 4,
    "num_global_blocks": 1,
    "horizontal_global_attention": False,
    "num_different_global_patterns": 1,
}
_VARIABLE: dict[str, Any] = {
    "num_random_blocks": 0,
    "local_window_blocks": [4],
    "horizontal_global_attention": False,
}
_BIGBIRD: dict[str, Any] = {
    "num_random_blocks": 0,
    "num_sliding_window_blocks": 3,
    "num_global_blocks": 1,
}
_SLIDING: dict[str, Any] = {"num_sliding_window_blocks": 3}
_LOCAL: dict[str, Any] = _SLIDING | {"attention": "unidirectional"}


def from_deepspeed(
    config: Mapping[str, Any], *, heads: int | None = None, seed: int = 0
) -> Pattern:
    """The pattern of a `sparse_attention` section of a DeepSpeed configuration.

    Missing entries have DeepSpeed's defaults. heads: how many the model has; needed if random
    blocks differ by head. seed: for random blocks.
    """
    if not isinstance(config, Mapping):
        raise InvalidArgument(f"config={config!r}: expected a dictionary")
    mode = one_of("mode", config.get("mode", _COMMON["mode"]), _MODES)
    defaults, cells = _MODES[mode]
    unknown = config.keys() - defaults.keys()
    if unknown:
        raise InvalidArgument(
            f"config has {', '.join(sorted(map(repr, unknown)))}; mode {mode!r} accepts "
            f"{', '.join(defaults)}"
        )
    values = defaults | dict(config)
    if "attention" in values:
        one_of("attention", values["attention"], _DIRECTIONS)
    for name in ("different_layout_per_head", "horizontal_global_attention"):
        if not isinstance(values.get(name, False), bool):
            raise InvalidArgument(f"{name}={values[name]!r}: expected true or false")
    if values.get("horizontal_global_attention") and _onward(values):
        raise InvalidArgument(
            "horizontal_global_attention=true: global blocks that attend to all blocks need "
            "attention='bidirectional'"
        )
    block = at_least_one("block", values["block"])
    layouts = 1
    if values["different_layout_per_head"] and values.get("num_random_blocks"):
        if heads is None:
            raise InvalidArgument(
                "heads: random blocks differ from head to head; give the number of heads"
            )
        layouts = at_least_one("heads", heads)
    each = [Coarse(block, cells(values, whole("seed", seed) + head)) for head in range(layouts)]
    return each[0] if layouts == 1 else PerHead(*each)


def _onward(values: Mapping[str, Any]) -> bool:
    return bool(values["attention"] == "unidirectional")


def _up_to_itself(pattern: Pattern, values: Mapping[str, Any]) -> Pattern:
    return pattern & Causal() if _onward(values) else pattern


def _dense(values: Mapping[str, Any], seed: int) -> Pattern:
    return Full()


def _fixed(values: Mapping[str, Any], seed: int) -> Pattern:
    """Windows of blocks, and in each window some blocks that all blocks attend to; which ones may
    differ by head.
    """
    size = at_least_one("num_local_blocks", values["num_local_blocks"])
    count = at_least_one("num_global_blocks", values["num_global_blocks"])
    versions = at_least_one(
        "num_different_global_patterns", values["num_different_global_patterns"]
    )
    if size % count:
        raise InvalidArgument(
            f"num_local_blocks={size}: not a multiple of num_global_blocks={count}"
        )
    if versions > size // count:
        raise InvalidArgument(
            f"num_different_global_patterns={versions}: expected at most num_local_blocks / "
            f"num_global_blocks = {size // count}"
        )
    if versions > 1 and not values["different_layout_per_head"]:
        raise InvalidArgument(
            f"num_different_global_patterns={versions}: needs different_layout_per_head=true"
        )
    windows = _up_to_itself(Blocks(size), values)
    both, onward = values["horizontal_global_attention"], _onward(values)
    each = [
        windows | PeriodicLandmarks(both, onward, size, size - (1 + version) * count, count)
        for version in range(versions)
    ]
    return each[0] if versions == 1 else PerHead(*each)


def _variable(values: Mapping[str, Any], seed: int) -> Pattern:
    """Windows of given numbers of blocks, given global blocks, and random ones."""
    windows = _up_to_itself(
        UnevenBlocks(_numbers("local_window_blocks", values["local_window_blocks"])), values
    )
    landmarks = Landmarks(values["horizontal_global_attention"], _onward(values), _spans(values))
    count = whole("num_random_blocks", values["num_random_blocks"])
    pattern = windows | landmarks
    return pattern | Random(count, seed) if count else pattern


def _bigbird(values: Mapping[str, Any], seed: int) -> Pattern:
    """A sliding window of blocks, the first blocks as global ones, and random ones."""
    count = whole("num_random_blocks", values["num_random_blocks"])
    stop = at_least_one("num_global_blocks", values["num_global_blocks"])
    pattern = _window(values) | Landmarks(both=True, spans=((0, stop),))
    if count:
        pattern = pattern | (RandomPast if _onward(values) else Random)(count, seed)
    return _up_to_itself(pattern, values)


def _longformer(values: Mapping[str, Any], seed: int) -> Pattern:
    """A sliding window of blocks and given global blocks."""
    return _up_to_itself(_window(values) | Landmarks(both=True, spans=_spans(values)), values)


def _local(values: Mapping[str, Any], seed: int) -> Pattern:
    """A sliding window of blocks."""
    return _up_to_itself(_window(values), values)


def _window(values: Mapping[str, Any]) -> Pattern:
    width = at_least_one("num_sliding_window_blocks", values["num_sliding_window_blocks"])
    return Window(width // 2)


def _numbers(name: str, given: Any) -> tuple[int, ...]:
    if not isinstance(given, list | tuple):
        raise InvalidArgument(f"{name}={given!r}: expected a list of whole numbers")
    return tuple(whole(name, number) for number in given)


def _spans(values: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    starts, stops = values["global_block_indices"], values["global_block_end_indices"]
    for name, given in (("global_block_indices", starts), ("global_block_end_indices", stops)):
        if given is not None:
            _numbers(name, given)
    if stops is None:
        stops = [start + 1 for start in starts]
    if len(starts) != len(stops):
        raise InvalidArgument(
            f"global_block_end_indices has {len(stops)} entries, global_block_indices "
            f"{len(starts)}; expected equal numbers"
        )
    return tuple(zip(starts, stops, strict=True))


_MODES: dict[str, tuple[dict[str, Any], Callable[[Mapping[str, Any], int], Pattern]]] = {
    "dense": (_COMMON, _dense),
    "fixed": (_COMMON | _DIRECTION | _FIXED, _fixed),
    "variable": (_COMMON | _DIRECTION | _VARIABLE | _PLACES, _variable),
    "bigbird": (_COMMON | _DIRECTION | _BIGBIRD, _bigbird),
    "bslongformer": (_COMMON | _DIRECTION | _SLIDING | _PLACES, _longformer),
    "local": (_COMMON | _LOCAL, _local),
    "bslocalslidingwindow": (_COMMON | _LOCAL, _local),
}
