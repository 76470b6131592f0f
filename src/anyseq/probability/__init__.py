"""Scores to weights."""

from anyseq.probability.maps import (
    Hardmax,
    ProbMap,
    Softmax,
    prob_map_from_dict,
    resolve_prob_map,
)

__all__ = ["Hardmax", "ProbMap", "Softmax", "prob_map_from_dict", "resolve_prob_map"]
