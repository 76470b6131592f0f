"""Design: the facts that decide what an attention design can express."""

from anyseq.design.design import USUAL_TOKENS, Design

__all__ = ["USUAL_TOKENS", "Design"]
