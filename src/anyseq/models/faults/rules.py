"""The rules of an audit, in their order: what later ones rest on comes first."""

from __future__ import annotations

from anyseq.models.faults.batches import random, rows
from anyseq.models.faults.caches import caches
from anyseq.models.faults.documents import documents
from anyseq.models.faults.identical import identical
from anyseq.models.faults.implementations import implementations
from anyseq.models.faults.layers import layers
from anyseq.models.faults.outputs import outputs
from anyseq.models.faults.padded_caches import padded_caches
from anyseq.models.faults.padding import padding
from anyseq.models.faults.rule import Rule

LAYERS = Rule(
    "layers",
    layers,
    "which pairs have a gradient is exact for the inputs and weights tried; what another input "
    "would switch on is missed",
    compares=False,
)

RULES = (
    Rule("random", random, "three runs; what is seldom random is missed"),
    Rule(
        "rows", rows, "one batch of three rows; what depends on how rows are sorted may be missed"
    ),
    LAYERS,
    Rule("outputs", outputs, "every pair of tokens, with two other contents, for its own weights"),
    Rule("padding", padding, "one sequence with a quarter of padding on either side"),
    Rule("documents", documents, "two documents in one sequence, every pair of tokens"),
    Rule("cache", caches, "one sequence: five tokens at once, three, then one by one"),
    Rule(
        "cache beside padding",
        padded_caches,
        "one sequence with padding on the left, one by one after its first real token",
    ),
    Rule("implementations", implementations, "one sequence without padding"),
    Rule("identical", identical, "one token, repeated"),
)
