"""Who may look at whom."""

from anyseq.patterns.algebra import Complement, Intersection, Union
from anyseq.patterns.named import Causal, Full
from anyseq.patterns.pattern import MaskMod, Pattern, pattern_from_dict
from anyseq.patterns.resolve import PatternLike, resolve

__all__ = [
    "Causal",
    "Complement",
    "Full",
    "Intersection",
    "MaskMod",
    "Pattern",
    "PatternLike",
    "Union",
    "pattern_from_dict",
    "resolve",
]
