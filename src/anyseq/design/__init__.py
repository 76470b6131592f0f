"""Design: the facts that decide what an attention design can express."""

from anyseq.design.design import Design

__all__ = ["Design"]
