"""Which tokens each token may attend to."""

from anyseq.patterns.algebra import Complement, Composite, Intersection, Union
from anyseq.patterns.blocks import BlockBounds, MaskMod
from anyseq.patterns.coarse import Coarse
from anyseq.patterns.deepspeed import from_deepspeed
from anyseq.patterns.documents import Documents
from anyseq.patterns.expression import parse_pattern, pattern_text
from anyseq.patterns.factored import Blocks, Fixed, Strided, Summary
from anyseq.patterns.given import FromMask, as_pattern
from anyseq.patterns.grids import GridPattern, Neighbourhood, ShiftedWindows
from anyseq.patterns.hubs import Global, Longformer, Ring, Star
from anyseq.patterns.layouts import Landmarks, PeriodicLandmarks, RandomPast, UnevenBlocks
from anyseq.patterns.offsets import (
    Causal,
    Dilated,
    Full,
    LogSparse,
    OffsetPattern,
    Residue,
    Window,
)
from anyseq.patterns.pattern import LengthFree, Pattern, PatternLike, pattern_from_dict
from anyseq.patterns.per_head import PerHead
from anyseq.patterns.random import BigBird, Random
from anyseq.patterns.resolve import evaluated, named, resolve

__all__ = [
    "BigBird",
    "BlockBounds",
    "Blocks",
    "Causal",
    "Coarse",
    "Complement",
    "Composite",
    "Dilated",
    "Documents",
    "Fixed",
    "FromMask",
    "Full",
    "Global",
    "GridPattern",
    "Intersection",
    "Landmarks",
    "LengthFree",
    "LogSparse",
    "Longformer",
    "MaskMod",
    "Neighbourhood",
    "OffsetPattern",
    "Pattern",
    "PatternLike",
    "PerHead",
    "PeriodicLandmarks",
    "Random",
    "RandomPast",
    "Residue",
    "Ring",
    "ShiftedWindows",
    "Star",
    "Strided",
    "Summary",
    "UnevenBlocks",
    "Union",
    "Window",
    "as_pattern",
    "evaluated",
    "from_deepspeed",
    "named",
    "parse_pattern",
    "pattern_from_dict",
    "pattern_text",
    "resolve",
]
