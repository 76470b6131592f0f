"""The formula for short sequences with a gain, in as few calls as it takes.

Everything is in the cache there, and what happens between operators is most of the time: a dozen
questions that the formula asks of a call (masks, hooks, maps, ...) are asked once, by `serves`.
"""

from __future__ import annotations

import torch

from anyseq.ops.call import Call
from anyseq.ops.choose import FEW, KEPT
from anyseq.ops.reference import weights_of
from anyseq.patterns import Full
from anyseq.probability import Softmax


def serves(call: Call) -> bool:
    """Whether it is a softmax over all keys with a gain, short, and on a CPU."""
    if call.gain is None or torch.compiler.is_compiling():  # whose graphs serve many lengths
        return False
    return (
        type(call.prob_map) is Softmax
        and (call.pattern is None or type(call.pattern) is Full)
        and call.mask is None
        and call.mask_mod is None
        and call.key_mask is None
        and call.score_mod is None
        and call.weight_mod is None
        and not (call.is_causal or call.dropout_p or call.return_lse)
        and call.q.shape[1] == call.k.shape[1]
        and 0 < call.q.shape[2] * call.k.shape[2] <= FEW
        and call.scores <= KEPT
        and call.q.device.type == "cpu"
    )


def attention(call: Call) -> torch.Tensor:
    """out (B, H, N, E)."""
    q, k, v, bias, gain = call.q, call.k, call.v, call.bias, call.gain
    assert gain is not None
    scores = (q * call.scale) @ k.mT
    if bias is not None:
        scores = scores + call.dense(bias)
    weights = weights_of(call, scores)
    del scores  # their memory, still in the cache, is for what comes next
    return (weights * call.dense(gain)).to(v.dtype) @ v
