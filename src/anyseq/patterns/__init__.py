"""Who may look at whom."""

from anyseq.patterns.algebra import Complement, Intersection, Union
from anyseq.patterns.named import Causal, Full
from anyseq.patterns.pattern import LengthFree, MaskMod, Pattern, pattern_from_dict
from anyseq.patterns.resolve import PatternLike, resolve

__all__ = [
    "Causal",
    "Complement",
    "Full",
    "Intersection",
    "LengthFree",
    "MaskMod",
    "Pattern",
    "PatternLike",
    "Union",
    "pattern_from_dict",
    "resolve",
]
