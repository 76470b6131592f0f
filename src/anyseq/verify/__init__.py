"""What a network computes, read from its weights, with its error; nothing of who built it."""

from anyseq.verify.facts import Facts, Ramps
from anyseq.verify.verdict import Check, Verification, digest
from anyseq.verify.verify import verify

__all__ = ["Check", "Facts", "Ramps", "Verification", "digest", "verify"]
