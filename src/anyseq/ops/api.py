"""`anyseq.attention`: checks a call and hands it to a backend."""

from __future__ import annotations

from typing import Any, Literal, overload

import torch

from anyseq.errors import InvalidArgument
from anyseq.ops import banded
from anyseq.ops.call import Call, ScoreMod
from anyseq.ops.checks import check_result, checked
from anyseq.ops.choose import (
    BACKENDS,
    AttentionPlan,
    backend_named,
    choose,
    covered_scores,
    refusals,
)
from anyseq.ops.one_query import narrowed
from anyseq.ops.operator import keep
from anyseq.patterns import Pattern, PatternLike, named, resolve
from anyseq.positions import GridToeplitz, Toeplitz
from anyseq.probability import ProbMap


@overload
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    pattern: PatternLike = None,
    key_mask: torch.Tensor | None = None,
    document_ids: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
    bias: torch.Tensor | Toeplitz | GridToeplitz | None = None,
    gain: torch.Tensor | Toeplitz | None = None,
    softcap: float | None = None,
    score_mod: ScoreMod | None = None,
    weight_mod: ScoreMod | None = None,
    prob_map: str | ProbMap = "softmax",
    scale: float | None = None,
    is_causal: bool = False,
    enable_gqa: bool = False,
    dropout_p: float = 0.0,
    q_offset: int = 0,
    backend: str = "auto",
    return_lse: Literal[False] = False,
) -> torch.Tensor: ...


@overload
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    pattern: PatternLike = None,
    key_mask: torch.Tensor | None = None,
    document_ids: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
    bias: torch.Tensor | Toeplitz | GridToeplitz | None = None,
    gain: torch.Tensor | Toeplitz | None = None,
    softcap: float | None = None,
    score_mod: ScoreMod | None = None,
    weight_mod: ScoreMod | None = None,
    prob_map: str | ProbMap = "softmax",
    scale: float | None = None,
    is_causal: bool = False,
    enable_gqa: bool = False,
    dropout_p: float = 0.0,
    q_offset: int = 0,
    backend: str = "auto",
    return_lse: Literal[True],
) -> tuple[torch.Tensor, torch.Tensor]: ...


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    pattern: PatternLike = None,
    key_mask: torch.Tensor | None = None,
    document_ids: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
    bias: torch.Tensor | Toeplitz | GridToeplitz | None = None,
    gain: torch.Tensor | Toeplitz | None = None,
    softcap: float | None = None,
    score_mod: ScoreMod | None = None,
    weight_mod: ScoreMod | None = None,
    prob_map: str | ProbMap = "softmax",
    scale: float | None = None,
    is_causal: bool = False,
    enable_gqa: bool = False,
    dropout_p: float = 0.0,
    q_offset: int = 0,
    backend: str = "auto",
    return_lse: bool = False,
    **unknown: object,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """out = [ρ(softcap(q k^T scale + bias), -∞ where masked) ∘ gain] v.

    q (B, H, N, D), k (B, H, M, D), v (B, H, M, E) -> out (B, H, N, E); with `return_lse` also the
    log-sum-exp of the masked scores, (B, H, N). True = may attend. A row with nothing to attend to
    gives 0 and passes no gradient.

    pattern: a Pattern, its text ("window(64) | global(0)"), a mask_mod(b, h, i, j), a bool tensor
        (N, M) with heads and batch before it if they differ, or a BlockMask.
    key_mask: (B, M) bool, and-ed with the pattern: False for keys that are padding.
    document_ids: (B, M) integers: a token attends to its own document only. Query i is the
        token q_offset + i.
    cu_seqlens: (documents + 1,) integers, 0, ..., M: where the documents of a packed sequence begin
        and the last one ends; instead of document_ids, the same for all batch rows.
    bias, gain: added before, multiplied after the probability map; a tensor that broadcasts to
        (B, H, N, M), or a Toeplitz; as bias also a GridToeplitz.
    softcap: scores s become softcap·tanh(s / softcap), after the bias.
    score_mod, weight_mod: callables applied after bias and softcap, after gain.
    scale: 1/sqrt(D) unless given.
    is_causal: key j <= q_offset + row, and-ed with the pattern.
    enable_gqa: k and v may have fewer heads, a divisor of H.
    q_offset: the position of the first query, when the keys before it come from a cache.
    backend: "auto", "reference" (the formula), "native" (the tiles of a pattern, by the kernel in
        C++), "tiles" (the same in torch's operators), "sdpa" or "flex" (torch's); see
        `attention_plan`.
    """
    call = checked(
        q, k, v,
        pattern=pattern, key_mask=key_mask, document_ids=document_ids, cu_seqlens=cu_seqlens,
        bias=bias, gain=gain, softcap=softcap, score_mod=score_mod, weight_mod=weight_mod,
        prob_map=prob_map, scale=scale, is_causal=is_causal, enable_gqa=enable_gqa,
        dropout_p=dropout_p, q_offset=q_offset, return_lse=return_lse, **unknown,
    )  # fmt: skip
    out, lse = attend(call, backend)
    check_result(call, out)
    return (out, lse) if return_lse and lse is not None else out


def attend(call: Call, backend: str = "auto") -> tuple[torch.Tensor, torch.Tensor | None]:
    """(out, lse if requested) of a call whose arguments fit together. Modules make the call
    themselves and skip the check for NaN: in training the loss shows it."""
    call = narrowed(call)
    if torch.compiler.is_exporting() and backend == "auto" and banded.fits(call):
        return banded.attention(call)
    taken = BACKENDS[_chosen(call, backend)]
    if call.scores == 0:  # tiles of nothing have no geometry; the formula needs none
        taken = BACKENDS["reference"]
    return taken.attention(call)


def _chosen(call: Call, backend: str) -> str:
    """The backend of that name, or the one "auto" takes; an error if it cannot do the call."""
    name = backend_named(backend)
    if name == "auto":
        name, _ = choose(call)
    elif (reason := BACKENDS[name].refusal(call)) is not None:
        raise InvalidArgument(f"backend={name!r} cannot do this: {reason}")
    return name


def prepare(pattern: PatternLike, backend: str) -> PatternLike:
    """What a module may pass to `attention`, checked: a text as its pattern, and patterns made
    known, so that a graph compiled later can name them."""
    backend_named(backend)
    pattern = named(pattern)
    if isinstance(pattern, Pattern):
        keep(pattern)
    elif pattern is not None:
        resolve(pattern, 1)
    return pattern


def attention_plan(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    **arguments: Any,
) -> AttentionPlan:
    """What `attention` does with the same arguments, and why; nothing is computed."""
    asked = backend_named(arguments.pop("backend", "auto"))
    call = narrowed(checked(q, k, v, **arguments))
    backend, reason = choose(call) if asked == "auto" else (asked, "asked for")
    scores = covered_scores(call) if backend in ("native", "tiles") else call.scores
    return AttentionPlan(backend, reason, scores, call.scores, refusals(call))
