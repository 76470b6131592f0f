"""The rules of an audit, in order: what later ones rest on comes first."""

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
    "what smooth operations carry shows with probability 1, as weights and inputs are random; what "
    "only other inputs switch on (a threshold, a rare route) may be missed",
    compares=False,
)

RULES = (
    Rule("random", random, "three runs: what is random more rarely may be missed"),
    Rule("rows", rows, "batches of three rows: what shows only in larger ones may be missed"),
    LAYERS,
    Rule(
        "outputs",
        outputs,
        "each token gets two other contents, and one in a sequence of 130 or 64 tokens (models of "
        "up to 5 million weights): effects below 1e-4 of the largest output (3e-2 in half "
        "precision), what other contents switch on, and what only longer sequences show, may be "
        "missed",
    ),
    Rule("padding", padding, "one sequence, a quarter of it padding: other shares may differ"),
    Rule("documents", documents, "two documents in one sequence: more of them may differ"),
    Rule("cache", caches, "one sequence of the audit's length: what happens beyond it is missed"),
    Rule(
        "cache beside padding",
        padded_caches,
        "one sequence, padded on the left, one token at a time after its first real one",
    ),
    Rule("implementations", implementations, "one sequence without padding"),
    Rule("identical", identical, "one token, repeated"),
)
