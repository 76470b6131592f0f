"""A validated call as arguments of the operator `tiles`."""

from __future__ import annotations

import torch

from anyseq.ops.call import Call, Term
from anyseq.ops.operator.keys import key_of
from anyseq.ops.operator.op import Step, is_plain, tiles
from anyseq.patterns import evaluated
from anyseq.positions import GridToeplitz, Toeplitz


def run_tiles(call: Call, native: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """(out (B, H, N, E), lse (B, H, N))."""
    mask = call.mask
    if call.mask_mod is not None:
        mask = evaluated(call.mask_mod, *call.indices())
        mask = mask.reshape((1,) * (4 - mask.ndim) + tuple(mask.shape))
    seed = None
    if call.dropout_p > 0:
        # Drawn from torch's own random state, so that torch.manual_seed governs dropout here, too.
        seed = torch.randint(2**62, (), dtype=torch.int64)
    bias, gain = _tensor(call.bias), _tensor(call.gain)
    places = call.bias.places if isinstance(call.bias, GridToeplitz) else None
    tensors = (
        call.q, call.k, call.v, mask, call.key_mask, call.document_ids, bias, gain, places,
        seed,
    )  # fmt: skip
    run = Step.apply if is_plain(*(one for one in tensors if one is not None)) else tiles
    out, lse = run(
        *tensors,
        "" if call.pattern is None else key_of(call.pattern),
        call.is_causal,
        call.scale,
        0.0 if call.softcap is None else call.softcap,
        call.dropout_p,
        call.q_offset,
        native,
    )
    return out, lse


def _tensor(term: Term | None) -> torch.Tensor | None:
    if isinstance(term, GridToeplitz):
        return term.table
    return term.coefficients if isinstance(term, Toeplitz) else term
