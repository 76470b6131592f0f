"""A validated call as arguments of the operator `tiles`."""

from __future__ import annotations

import torch

from anyseq.ops.call import Call, Term
from anyseq.ops.tiles.bands import Sizes
from anyseq.ops.tiles.cover import cover
from anyseq.ops.tiles.keys import combined, key_of
from anyseq.ops.tiles.op import tiles
from anyseq.patterns import evaluated
from anyseq.positions import Toeplitz


def run_tiles(call: Call, whole_rows: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """(out (B, H, N, E), lse (B, H, N)).

    whole_rows: tiles of all keys, instead of those that cover the pattern.
    """
    mask = call.mask
    if call.mask_mod is not None:
        mask = evaluated(call.mask_mod, *call.indices())
        mask = mask.reshape((1,) * (4 - mask.ndim) + tuple(mask.shape))
    seed = None
    if call.dropout_p > 0:
        # Drawn from torch's own random state, so that torch.manual_seed governs dropout here, too.
        seed = torch.randint(2**62, (), dtype=torch.int64)
    out, lse = tiles(
        call.q,
        call.k,
        call.v,
        mask,
        call.key_mask,
        _tensor(call.bias),
        _tensor(call.gain),
        seed,
        "" if call.pattern is None else key_of(call.pattern),
        call.is_causal,
        call.scale,
        call.dropout_p,
        call.q_offset,
        whole_rows,
    )
    return out, lse


def _tensor(term: Term | None) -> torch.Tensor | None:
    return term.coefficients if isinstance(term, Toeplitz) else term


def covered_scores(call: Call) -> tuple[int, int]:
    """Scores in the tiles of the pattern, and runs of tiles, over all batch rows and heads."""
    sizes = Sizes(call.q.shape[2], call.k.shape[2], call.q_offset)
    pattern = combined("" if call.pattern is None else key_of(call.pattern), call.is_causal)
    parts = pattern.heads()
    layouts = [cover(parts[head % len(parts)], sizes) for head in range(call.q.shape[1])]
    batch = call.q.shape[0]
    return (
        batch * sum(layout.area for layout in layouts),
        batch * sum(len(part.runs) for layout in layouts for part in layout.passes),
    )
