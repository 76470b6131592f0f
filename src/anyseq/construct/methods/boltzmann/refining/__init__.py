"""Refining: what the tokens of a design can tell about a sequence of cells, layer by layer
(docs/theorems.md, Theorem 2)."""

from anyseq.construct.methods.boltzmann.refining.choose import Choice, cases, choose
from anyseq.construct.methods.boltzmann.refining.draw import Wires, refining_heads
from anyseq.construct.methods.boltzmann.refining.refine import Round, refine

__all__ = ["Choice", "Round", "Wires", "cases", "choose", "refine", "refining_heads"]
