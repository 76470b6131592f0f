"""Where a token is: frozen descriptions. Their parameters live in `anyseq.nn`."""

from anyseq.positions.absolute import Absolute, Sinusoidal
from anyseq.positions.grid import GridBias, GridToeplitz, on_a_line
from anyseq.positions.names import parse_position, position_text
from anyseq.positions.position import NoPosition, Place, Position, position_from_dict
from anyseq.positions.query_key import Rotary, Shaw
from anyseq.positions.relative import ALiBi, RelativeBias, T5Bias, ToeplitzBias
from anyseq.positions.scaling import NTK, Linear, Llama3, RotaryScaling, YaRN
from anyseq.positions.toeplitz import Toeplitz
from anyseq.positions.urpe import URPE, base_of

__all__ = [
    "NTK",
    "URPE",
    "ALiBi",
    "Absolute",
    "GridBias",
    "GridToeplitz",
    "Linear",
    "Llama3",
    "NoPosition",
    "Place",
    "Position",
    "RelativeBias",
    "Rotary",
    "RotaryScaling",
    "Shaw",
    "Sinusoidal",
    "T5Bias",
    "Toeplitz",
    "ToeplitzBias",
    "YaRN",
    "base_of",
    "on_a_line",
    "parse_position",
    "position_from_dict",
    "position_text",
]
