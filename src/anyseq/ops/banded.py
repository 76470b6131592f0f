"""Windows in operators that every runtime has: what an exported graph holds of a pattern whose
tokens attend no further than some places.

Queries are cut into blocks, and each block is a batch row of its own with the keys that it may
attend to, so that nothing of size N x M is made. Lengths stay free.
"""

from __future__ import annotations

from math import inf

import torch

from anyseq.ops import reference
from anyseq.ops.call import Call
from anyseq.patterns import (
    Blocks,
    Causal,
    Dilated,
    Intersection,
    Pattern,
    PerHead,
    Union,
    Window,
)
from anyseq.positions import Toeplitz

_SHORTEST = 32  # queries of a block


def fits(call: Call) -> bool:
    """Whether a token attends to few places, and nothing is given pair by pair."""
    terms = (call.bias, call.gain)
    if any(term is not None and not isinstance(term, Toeplitz) for term in terms):
        return False
    if call.score_mod is not None or call.weight_mod is not None:  # they are told positions
        return False
    if call.pattern is None or call.mask is not None or call.mask_mod is not None:
        return False
    # imported here, since it takes half a second; whoever exports has it already
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    aligned = call.q_offset == 0 and statically_known_true(call.q.shape[2] == call.k.shape[2])
    return aligned and sum(_reach(call)) < inf


def attention(call: Call) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(out (B, H, N, E), lse (B, H, N) if requested), by the formula for every block."""
    before, after = map(int, _reach(call))
    batch, heads, n, _ = call.q.shape
    height = max(_SHORTEST, (before + after) // 2)
    # One more than needed, so that there are two at least at every length: a graph that is to serve
    # them all must not ask whether there is one. (And as one quotient: torch cannot tell that a
    # multiple of a sum is divisible by the sum.)
    count, width = (n + 2 * height - 1) // height, before + height + after
    rows, columns = (torch.arange(size, device=call.q.device) for size in (height, width))
    first = torch.arange(count, device=call.q.device)[:, None] * height
    i, j = first + rows, first - before + columns  # (blocks, height), (blocks, width)
    places = j.clamp(0, n - 1)

    allowed = _allowed(call, i[:, None, :, None], j[:, None, None, :], heads)[None]
    if call.key_mask is not None:
        allowed = allowed & call.key_mask[:, places][:, :, None, None, :]
    if call.document_ids is not None:
        own, theirs = (call.document_ids[:, at] for at in (i.clamp(max=n - 1), places))
        allowed = allowed & (own[:, :, None, :, None] == theirs[:, :, None, None, :])

    def cut(side: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """(B, H, tokens, size) -> (B·blocks, H, those of a block, size)."""
        return side[:, :, at].transpose(1, 2).flatten(0, 1)

    def entries(term: object) -> torch.Tensor | None:
        """Of a Toeplitz matrix in a block, (1, heads, height, width): alike in all of them."""
        if not isinstance(term, Toeplitz):
            return None
        table = term.coefficients
        offsets = rows[:, None] - columns + (before + table.shape[1] // 2)
        return table[:, offsets.clamp(0, table.shape[1] - 1)][None]

    out, lse = reference.attention(
        call._replace(
            q=cut(call.q, i.clamp(max=n - 1)),
            k=cut(call.k, places),
            v=cut(call.v, places),
            pattern=None,
            is_causal=False,
            key_mask=None,
            document_ids=None,
            mask=allowed.expand(batch, *allowed.shape[1:]).flatten(0, 1),
            bias=entries(call.bias),
            gain=entries(call.gain),
        )
    )

    def joined(found: torch.Tensor) -> torch.Tensor:
        whole = found.reshape(batch, count, *found.shape[1:]).transpose(1, 2).flatten(2, 3)
        # what a slice is depends on the length; a copy does not
        return whole.index_select(2, torch.arange(n, device=found.device))

    return joined(out), None if lse is None else joined(lse)


def _allowed(call: Call, i: torch.Tensor, j: torch.Tensor, heads: int) -> torch.Tensor:
    """(blocks, 1 or heads, height, width): what the pattern says, of keys that there are."""
    assert call.pattern is not None
    h = torch.arange(heads, device=i.device)[:, None, None]
    seen = call.pattern.at(call.span)(torch.zeros_like(h), h, i, j)
    if call.is_causal:
        seen = seen & (j <= i)
    return seen & (j >= 0) & (j < call.k.shape[2])


def _reach(call: Call) -> tuple[float, float]:
    """How far before and after itself a token attends at most."""
    before, after = (inf, inf) if call.pattern is None else _furthest(call.pattern)
    return before, min(after, 0) if call.is_causal else after


def _furthest(pattern: Pattern) -> tuple[float, float]:
    match pattern:
        case Causal():
            return inf, 0
        case Window(radius):
            return radius, radius
        case Dilated(radius, step):
            return radius * step, radius * step
        case Blocks(size):
            return size - 1, size - 1
        case Intersection(parts):
            before, after = zip(*map(_furthest, parts), strict=True)
            return min(before), min(after)
        case Union(parts) | PerHead(parts):
            before, after = zip(*map(_furthest, parts), strict=True)
            return max(before), max(after)
    return inf, inf
