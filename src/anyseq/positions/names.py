"""Position encodings by name."""

from __future__ import annotations

import re

from anyseq.errors import InvalidArgument
from anyseq.positions.absolute import Absolute, Sinusoidal
from anyseq.positions.grid import GridBias
from anyseq.positions.position import NoPosition, Position
from anyseq.positions.query_key import Rotary, Shaw
from anyseq.positions.relative import ALiBi, RelativeBias, T5Bias
from anyseq.positions.urpe import URPE

_NAMES: dict[str, type[Position]] = {
    "none": NoPosition,
    "absolute": Absolute,
    "sinusoidal": Sinusoidal,
    "rope": Rotary,
    "rotary": Rotary,
    "alibi": ALiBi,
    "t5": T5Bias,
    "relative": RelativeBias,
    "shaw": Shaw,
    "urpe": URPE,
}


def position_text(position: Position) -> str:
    """The name that `parse_position` reads, or the encoding as Python shows it."""
    if isinstance(position, URPE) and position.shared:
        base = position_text(position.base)
        return "urpe" if base == "relative" else f"urpe({base})"
    if isinstance(position, GridBias):
        return f"grid({', '.join(map(str, position.shape))})"
    return next((name for name, cls in _NAMES.items() if position == cls()), repr(position))


def parse_position(text: str) -> Position:
    """The encoding of that name, with its usual settings; "urpe(rope)" is URPE around RoPE, and
    "grid(8, 8)" GridBias((8, 8))."""
    name = text.strip().lower()
    if name.startswith("urpe(") and name.endswith(")"):
        return URPE(parse_position(name[5:-1]))
    if (grid := re.fullmatch(r"grid\((.*)\)", name)) is not None:
        return GridBias(tuple(_length(text, part.strip()) for part in grid[1].split(",")))
    if name not in _NAMES:
        known = ", ".join(_NAMES)
        raise InvalidArgument(
            f"position {text!r}: expected one of {known}, grid(8, 8) with the "
            "lengths of the axes of an array, or urpe(one of them)"
        )
    return _NAMES[name]()


def _length(text: str, part: str) -> int:
    if re.fullmatch("[0-9]{1,18}", part) is None:
        raise InvalidArgument(
            f"position {text!r}: length {part!r} is not a whole number; expected such as grid(8, 8)"
        )
    return int(part)
