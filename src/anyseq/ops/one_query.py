"""One query after a cache, as in generation: it needs the keys that it attends to, and no mask."""

from __future__ import annotations

from functools import lru_cache
from math import inf

import torch

from anyseq.ops.call import Call, Term
from anyseq.patterns import Causal, Full, Intersection, Pattern, Window
from anyseq.positions import GridToeplitz


def narrowed(call: Call) -> Call:
    """The same call with only the keys that its one query attends to, if a quick rule gives them as
    an interval: windows, the past, and both."""
    if call.q.shape[2] != 1 or call.mask is not None or call.mask_mod is not None:
        return call
    if call.score_mod is not None or call.weight_mod is not None:  # they are told positions
        return call
    # Remembered for the kinds that are known only: others may hold somebody's function or mask.
    # (And dynamo looks through what is remembered, and warns of it.)
    lasting = not torch.compiler.is_compiling() and _holds_nothing(call.pattern)
    ask = _remembered if lasting else _reach
    reach = (inf, inf) if call.pattern is None else ask(call.pattern)
    if reach is None:
        return call
    before, after = reach
    if call.is_causal:
        after = min(after, 0)
    keys, at = call.k.shape[2], call.q_offset
    first = max(0, at - before) if before < inf else 0
    last = min(keys, at + after + 1) if after < inf else keys
    if first >= last:  # nothing is seen
        return call
    documents = call.document_ids
    if documents is not None and not first <= at < last:  # the query's own would be cut away
        return call
    if (first, last) == (0, keys):
        return call._replace(pattern=None, is_causal=False)
    seen = slice(int(first), int(last))

    def some(given: torch.Tensor | None) -> torch.Tensor | None:
        return None if given is None else given[:, seen]

    def term(given: Term | None) -> Term | None:
        # a Toeplitz matrix knows the difference of positions only
        if isinstance(given, GridToeplitz):
            given = given.dense(1, keys, at)[None]
        if isinstance(given, torch.Tensor) and given.shape[3] > 1:
            return given[..., seen]
        return given

    return call._replace(
        k=call.k[:, :, seen],
        v=call.v[:, :, seen],
        pattern=None,
        is_causal=False,
        key_mask=some(call.key_mask),
        document_ids=some(documents),
        bias=term(call.bias),
        gain=term(call.gain),
        q_offset=at - seen.start,
    )


def _holds_nothing(pattern: Pattern | None) -> bool:
    parts = pattern.parts if isinstance(pattern, Intersection) else (pattern,)
    return all(type(part) in (Full, Causal, Window) for part in parts)


def _reach(pattern: Pattern) -> tuple[float, float] | None:
    """(before, after) if i attends to exactly the keys from i - before to i + after."""
    match pattern:
        case Full():
            return inf, inf
        case Causal():
            return inf, 0
        case Window(before, after):
            return before, after
        case Intersection(parts):
            found = [_reach(part) for part in parts]
            known = [one for one in found if one is not None]
            if len(known) < len(found):
                return None
            return min(one[0] for one in known), min(one[1] for one in known)
    return None


_remembered = lru_cache(maxsize=256)(_reach)
