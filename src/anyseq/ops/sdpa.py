"""torch's scaled_dot_product_attention, with the mask and the bias as one dense tensor."""

from __future__ import annotations

from functools import lru_cache
from types import NoneType

import torch
from torch.nn.functional import scaled_dot_product_attention

from anyseq.ops.call import Call, may_look
from anyseq.patterns import Causal, Full, Pattern

_KEPT = 1 << 20  # entries of a mask that is kept for the next call


def refusal(call: Call) -> str | None:
    """Why this backend cannot do it, or None."""
    if not call.plain_softmax:
        return "it computes softmax without score_mod and weight_mod"
    if call.gain is not None:
        return "it has nothing after the softmax, so no gain"
    if call.softcap is not None:
        return "it has no softcap"
    if call.return_lse:
        return "it keeps the log-sum-exp to itself, so no return_lse"
    return None


def attention(call: Call) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(out (B, H, N, E), None): the log-sum-exp stays inside."""
    mask, empty, causal = _mask(call)
    out = scaled_dot_product_attention(
        call.q,
        call.k,
        call.v,
        attn_mask=mask,
        dropout_p=call.dropout_p,
        is_causal=causal,
        scale=call.scale,
        enable_gqa=call.groups > 1,
    )
    return (out if empty is None else out.masked_fill(empty, 0.0)), None


def _mask(call: Call) -> tuple[torch.Tensor | None, torch.Tensor | None, bool]:
    """The mask to add, which rows have nothing to attend to, and whether torch is to mask causally
    itself."""
    simple = call.is_simple and not call.masked_apart and call.bias is None
    causal = call.is_causal or type(call.pattern) is Causal
    if simple and not causal:
        return None, None, False
    if simple and call.q_offset == 0 and call.q.shape[2] == call.k.shape[2]:
        return None, None, True
    if (
        call.is_simple
        and not causal
        and call.bias is None
        and (padding := _padding(call)) is not None
    ):
        return padding, None, False
    penalty, empty = hidden(call)
    if call.bias is not None:
        bias = call.dense(call.bias).to(call.q.dtype)
        penalty = bias if penalty is None else bias + penalty
    return penalty, empty, False


def _padding(call: Call) -> torch.Tensor | None:
    """The key_mask as torch takes masks, if nothing else hides keys and no batch row lacks them
    all; then no row needs special care."""
    key_mask = call.key_mask
    if key_mask is None or not may_look(key_mask) or not bool(key_mask.any(1).all()):
        return None
    apart = call.document_ids is not None or call.mask is not None or call.mask_mod is not None
    return None if apart else key_mask[:, None, None, :]


def hidden(call: Call) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """What to add for the pattern and the masks, None if nothing is hidden, and which rows have
    nothing to attend to (these are unmasked)."""
    named = not call.masked_apart
    if named and not call.is_causal and type(call.pattern) in (Full, NoneType):
        return None, None
    named = named and (call.pattern is None or call.pattern.lasting)
    if named and not torch.compiler.is_compiling() and call.span**2 <= _KEPT:
        return _kept(
            call.pattern,
            call.is_causal,
            call.q.shape[1],
            (call.q_offset, call.q.shape[2], call.k.shape[2]),
            call.q.dtype,
            call.q.device,
        )
    allowed = call.allowed()
    return (None, None) if allowed is None else _penalty(allowed, call.q.dtype)


@lru_cache(maxsize=32)
@torch.inference_mode(mode=False)  # a mask made while evaluating must serve training, too
def _kept(
    pattern: Pattern | None,
    is_causal: bool,
    heads: int,
    sizes: tuple[int, int, int],
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """The mask of a pattern to add, and the rows with nothing to attend to."""
    q_offset, queries, keys = sizes
    h = torch.arange(heads, device=device)[:, None, None]
    i = torch.arange(q_offset, q_offset + queries, device=device)[:, None]
    j = torch.arange(keys, device=device)[None, :]
    allowed = torch.ones(queries, keys, dtype=torch.bool, device=device)
    if pattern is not None:
        span = max(keys, q_offset + queries)
        allowed = pattern.at(span)(torch.zeros_like(h), h, i, j)
    if is_causal:
        allowed = allowed & (j <= i)
    return _penalty(allowed.expand(*allowed.shape[:-2], queries, keys), dtype)


def _penalty(
    allowed: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """0 where allowed, -inf elsewhere, None if all are; a row with nothing to attend to is
    unmasked, and reported."""
    # graphs and torch.func cannot depend on what is found
    looks = not (torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active())
    if looks and bool(allowed.all()):
        return None, None
    empty = ~allowed.any(-1, keepdim=True)
    penalty = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
    penalty = penalty.masked_fill(~(allowed | empty), -torch.inf)
    return penalty, None if looks and not bool(empty.any()) else empty
