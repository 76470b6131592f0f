"""How many keys a token attends to, and how many a cache has to keep."""

from __future__ import annotations

import numpy as np

from anyseq.graph.borders import keys_seen
from anyseq.graph.edges import seen_by_any_head
from anyseq.graph.visible import visible
from anyseq.patterns import Pattern


def keys_attended(pattern: Pattern, size: int) -> float:
    """The keys that one of `size` vertices attends to, on average over the vertices and heads."""
    heads = pattern.heads()
    many = {head: keys_seen(head, size).mean() for head in dict.fromkeys(heads)}
    return float(sum(many[head] for head in heads) / len(heads))


def keys_kept(pattern: Pattern, size: int) -> int | None:
    """The most keys that a layer has to keep at once while `size` vertices are read one by one:
    those, of what came so far, that the present vertex or a later one attends to, in any head. None
    if some vertex attends to a later one, so that they cannot be read so.

    A causal window of radius w keeps w + 1, causal attention all.
    """
    seen = visible(seen_by_any_head(pattern), size)
    if seen.looks_ahead():
        return None
    key, last = np.arange(size), seen.last_seer()
    read = last >= 0
    kept = np.bincount(key[read], minlength=size + 1)  # from the key itself
    kept -= np.bincount(last[read] + 1, minlength=size + 1)  # to its last reader
    return int(np.cumsum(kept).max())
