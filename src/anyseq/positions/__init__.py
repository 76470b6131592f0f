"""Where a token is: frozen descriptions. Their parameters live in `anyseq.nn`."""

from anyseq.positions.position import Absolute, NoPosition, Place, Position, position_from_dict
from anyseq.positions.toeplitz import Toeplitz

__all__ = ["Absolute", "NoPosition", "Place", "Position", "Toeplitz", "position_from_dict"]
