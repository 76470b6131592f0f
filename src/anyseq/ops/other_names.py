"""What other libraries call the arguments of attention, and what they are here."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from anyseq.errors import InvalidArgument

_SEEN = "which has True = may be attended to"

_HERE = {
    "attn_mask": "bool: pattern=attn_mask (True = may attend); numbers: bias=attn_mask. "
    "anyseq.scaled_dot_product_attention takes it as it is",
    "attention_mask": f"(B, M) padding: key_mask=attention_mask.bool(), {_SEEN}; numbers of size "
    "(N, M): bias=attention_mask",
    "mask": "bool: pattern=mask (True = may attend); numbers: bias=mask",
    "key_padding_mask": f"key_mask=~key_padding_mask, {_SEEN}",
    "padding_mask": f"key_mask=, {_SEEN}",
    "block_mask": "pattern=block_mask",
    "mask_mod": "pattern=mask_mod",
    "attn_bias": "bias=attn_bias",
    "position_bias": "bias=position_bias",
    "alibi_slopes": "bias=, a Toeplitz; anyseq.nn.Attention(position=ALiBi()) makes one",
    "causal": "is_causal=causal",
    "dropout": "dropout_p=dropout",
    "softmax_scale": "scale=softmax_scale",
    "scaling": "scale=scaling",
    "window_size": "pattern=Window(radius), and is_causal=True for a window of the past",
    "sliding_window": "pattern=Window(sliding_window - 1) and is_causal=True",
    "logits_soft_cap": "softcap=logits_soft_cap",
    "cu_seqlens_q": "cu_seqlens=, the same for queries and keys",
    "cu_seqlens_k": "cu_seqlens=, the same for queries and keys",
    "cu_seq_lens_q": "cu_seqlens=, the same for queries and keys",
    "cu_seq_lens_k": "cu_seqlens=, the same for queries and keys",
    "position_ids": "document_ids= or cu_seqlens= for packed sequences",
    "need_weights": "anyseq.nn.MultiheadAttention gives weights; here return_lse=True gives the "
    "log-sum-exp",
}


def unknown_argument(name: str, known: Iterable[str]) -> InvalidArgument:
    """The error for an argument that attention does not have: what to write instead."""
    if name in _HERE:
        return InvalidArgument(f"{name}: attention has no argument of that name; use {_HERE[name]}")
    close = get_close_matches(name, known := sorted(known), n=1)
    hint = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(known)}"
    return InvalidArgument(f"{name}: attention has no argument of that name; {hint}")
