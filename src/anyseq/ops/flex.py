"""torch's FlexAttention: forward anywhere, backward on a GPU.

A gain C has no hook there. With S the masked scores and lse their log-sum-exp,

    (softmax(S) ∘ C) v = out₊ exp(lse₊ - lse) - out₋ exp(lse₋ - lse),

where out± and lse± are those of the scores S + log max(±C, 0).
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch

from anyseq.ops.call import Call, ScoreMod, Term
from anyseq.patterns import Causal, resolve
from anyseq.positions import GridToeplitz, Toeplitz
from anyseq.probability import Softmax

# torch.__version__ compares by numbers, not by letters: 2.13 comes after 2.9.
_HAS_AUX = torch.__version__ >= "2.9"

Entry = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def refusal(call: Call) -> str | None:
    """Why this backend cannot do it, or None."""
    if call.prob_map != Softmax():
        return "it computes softmax only"
    if call.weight_mod is not None:
        return "it has no hook after the softmax; a gain is possible, a weight_mod is not"
    if call.dropout_p > 0:
        return "it has no dropout"
    if call.q.device.type == "cpu":
        if torch.is_grad_enabled() and any(t.requires_grad for t in _tensors(call)):
            return "FlexAttention has no backward pass on the CPU"
        if _compiles(call) and not has_compiler():
            return "FlexAttention on the CPU needs a C++ compiler, and none is installed"
    return None


def _compiles(call: Call) -> bool:
    """Compiled for the CPU, FlexAttention has no float64 and keeps the log-sum-exp to itself; there
    it runs uncompiled, and is dense."""
    whole = call.gain is None and not call.return_lse and call.q.dtype != torch.float64
    return whole or call.q.device.type != "cpu"


def has_compiler() -> bool:
    """Whether a C++ compiler is there, which torch.compile needs on the CPU."""
    return shutil.which("g++") is not None or shutil.which("clang++") is not None


def attention(call: Call) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(out (B, H, N, E), lse (B, H, N)); lse is None unless requested or needed."""
    if not torch.is_grad_enabled():
        call = _detached(
            call
        )  # on the CPU, FlexAttention refuses what merely could have a gradient
    block_mask, before = _block_mask(call), _score_mod(call)
    if call.gain is None:
        return _run(call, before, block_mask, call.return_lse)
    out, lse = _run(call, before, block_mask, True)
    assert lse is not None
    entry = _entry(call.gain, call)
    total = torch.zeros_like(out)
    for positive in (True, False):
        part, part_lse = _run(call, _with_log(before, entry, positive), block_mask, True)
        assert part_lse is not None
        # Rows without a weight of this sign have lse± = -inf, and lse = -inf if they see nothing.
        share = (part_lse - lse.masked_fill(lse == -torch.inf, 0.0)).exp()
        weighted = part * share[..., None].to(part.dtype)
        total = total + weighted if positive else total - weighted
    return total, lse


def _run(
    call: Call, score_mod: ScoreMod | None, block_mask: Any, wants_lse: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(out, lse or None)."""
    from torch.nn.attention.flex_attention import flex_attention

    function: Any = _compiled() if _compiles(call) else flex_attention
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
        result: Any = function(
            call.q,
            call.k,
            call.v,
            score_mod=score_mod,
            block_mask=block_mask,
            scale=call.scale,
            enable_gqa=call.groups > 1,
            **_asked(wants_lse),
        )
    if not wants_lse:
        return result, None
    return result[0], result[1].lse if _HAS_AUX else result[1]


def _asked(wants_lse: bool) -> dict[str, Any]:
    """The argument that asks for the log-sum-exp, which has another name before torch 2.9."""
    if not _HAS_AUX:
        return {"return_lse": wants_lse}
    from torch.nn.attention.flex_attention import AuxRequest

    return {"return_aux": AuxRequest(lse=True) if wants_lse else None}


@lru_cache(maxsize=1)
def _compiled() -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention

    compiled: Callable[..., Any] = torch.compile(flex_attention, dynamic=False)
    return compiled


def _block_mask(call: Call) -> Any:
    """The blocks to visit; None for all."""
    from torch.nn.attention.flex_attention import create_block_mask

    queries, keys = call.q.shape[2], call.k.shape[2]
    if (
        call.pattern is not None
        and not call.masked_apart
        and call.q_offset == 0
        and queries == keys
    ):
        pattern = call.pattern & Causal() if call.is_causal else call.pattern
        return pattern.block_mask(keys, heads=call.q.shape[1]).to(call.q.device)
    allowed = call.allowed()
    if allowed is None:
        return None
    # Anything else is looked up in the mask itself.
    mask_mod = resolve(allowed.expand(*allowed.shape[:-2], queries, keys), keys)
    batch, heads = call.q.shape[:2]
    return create_block_mask(mask_mod, batch, heads, queries, keys, device=call.q.device)


def _score_mod(call: Call) -> ScoreMod | None:
    """The bias, the softcap, then the caller's hook, which takes positions; FlexAttention counts
    rows."""
    bias = None if call.bias is None else _entry(call.bias, call)
    hook, q_offset, cap = call.score_mod, call.q_offset, call.softcap
    if bias is None and hook is None and cap is None:
        return None

    def score_mod(
        score: torch.Tensor, b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
    ) -> torch.Tensor:
        if bias is not None:
            score = score + bias(b, h, i, j)
        if cap is not None:
            score = cap * torch.tanh(score / cap)
        return score if hook is None else hook(score, b, h, i + q_offset, j)

    return score_mod


def _with_log(before: ScoreMod | None, entry: Entry, positive: bool) -> ScoreMod:
    """The scores S + log max(±C, 0)."""

    def score_mod(
        score: torch.Tensor, b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
    ) -> torch.Tensor:
        if before is not None:
            score = before(score, b, h, i, j)
        gain = entry(b, h, i, j)
        return score + torch.log(torch.clamp(gain if positive else -gain, min=0.0))

    return score_mod


def _entry(term: Term, call: Call) -> Entry:
    """(b, h, row, column) -> the entry of a bias or gain there."""
    # In the type of the scores: float64 entries beside float32 scores come out as NaN on the CPU.
    dtype = torch.float64 if call.q.dtype == torch.float64 else torch.float32
    if isinstance(term, Toeplitz):
        table, reach = term.coefficients.to(dtype), term.coefficients.shape[1] // 2
        shared, q_offset = len(table) == 1, call.q_offset
        return lambda b, h, i, j: table[h * 0 if shared else h, i + q_offset - j + reach]
    if isinstance(term, GridToeplitz):
        table, places, shared = term.table.to(dtype), term.places, len(term.coefficients) == 1
        rows = places[call.q_offset :] + table.shape[1] // 2
        return lambda b, h, i, j: table[h * 0 if shared else h, rows[i] - places[j]]
    given, shape = term.to(dtype), term.shape

    def entry(b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        places = (b, h, i, j)
        return given[
            tuple(at * 0 if size == 1 else at for at, size in zip(places, shape, strict=True))
        ]

    return entry


def _detached(call: Call) -> Call:
    def detached(term: Term | None) -> Term | None:
        if isinstance(term, Toeplitz):
            return Toeplitz(term.coefficients.detach())
        if isinstance(term, GridToeplitz):
            return GridToeplitz(term.coefficients.detach())
        return None if term is None else term.detach()

    return call._replace(
        q=call.q.detach(),
        k=call.k.detach(),
        v=call.v.detach(),
        bias=detached(call.bias),
        gain=detached(call.gain),
    )


def _tensors(call: Call) -> list[torch.Tensor]:
    terms = [
        term.coefficients if isinstance(term, Toeplitz | GridToeplitz) else term
        for term in (call.bias, call.gain)
        if term is not None
    ]
    return [call.q, call.k, call.v, *terms]
