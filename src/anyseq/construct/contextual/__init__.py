"""Contextual mappings (Definition 3.1 of Yun et al. 2020): ids of (token, whole sequence)."""

from anyseq.construct.contextual.dense import Contextual

__all__ = ["Contextual"]
