"""Method "boltzmann"."""

from anyseq.construct.methods.boltzmann.boltzmann import NAME, recipe

__all__ = ["NAME", "recipe"]
