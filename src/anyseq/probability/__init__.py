"""Scores to weights."""

from anyseq.probability.maps import (
    Hardmax,
    ProbMap,
    Softmax,
    names_prob_map,
    prob_map_from_dict,
    prob_map_text,
    resolve_prob_map,
)
from anyseq.probability.sparse import Entmax15, Sparsemax, TopK

__all__ = [
    "Entmax15",
    "Hardmax",
    "ProbMap",
    "Softmax",
    "Sparsemax",
    "TopK",
    "names_prob_map",
    "prob_map_from_dict",
    "prob_map_text",
    "resolve_prob_map",
]
