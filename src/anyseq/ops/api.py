"""`anyseq.attention`: checks a call and hands it to a backend."""

from __future__ import annotations

from typing import Literal, overload

import torch

from anyseq.base import finite, one_of, whole
from anyseq.errors import InvalidArgument
from anyseq.ops import reference
from anyseq.ops.call import Call, ScoreMod
from anyseq.patterns import PatternLike, resolve
from anyseq.positions import Toeplitz
from anyseq.probability import ProbMap, resolve_prob_map

_BACKENDS = {"auto": reference.attention, "reference": reference.attention}


@overload
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    pattern: PatternLike = None,
    key_mask: torch.Tensor | None = None,
    bias: torch.Tensor | Toeplitz | None = None,
    gain: torch.Tensor | Toeplitz | None = None,
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
    bias: torch.Tensor | Toeplitz | None = None,
    gain: torch.Tensor | Toeplitz | None = None,
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
    bias: torch.Tensor | Toeplitz | None = None,
    gain: torch.Tensor | Toeplitz | None = None,
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
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """out = [ρ(q k^T scale + bias, -∞ where masked) ∘ gain] v.

    q (B, H, N, D), k (B, H, M, D), v (B, H, M, E) -> out (B, H, N, E); with `return_lse` also the
    log-sum-exp of the masked scores, (B, H, N). True = may attend. A row that sees nothing gives
    0 and passes no gradient.

    pattern: a Pattern, a mask_mod(b, h, i, j), a bool tensor or a BlockMask.
    key_mask: (B, M) bool, and-ed with the pattern: False for keys that are padding.
    bias, gain: added before, multiplied after the probability map; a tensor that broadcasts to
        (B, H, N, M), or a Toeplitz.
    score_mod, weight_mod: callables applied after bias, after gain.
    scale: 1/sqrt(D) unless given.
    is_causal: key j <= q_offset + row, and-ed with the pattern.
    enable_gqa: k and v may have fewer heads, a divisor of H.
    q_offset: the position of the first query, when the keys before it come from a cache.
    """
    _check_shapes(q, k, v, enable_gqa)
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = (side.repeat_interleave(groups, dim=1) for side in (k, v))
    whole("q_offset", q_offset)
    if not 0.0 <= finite("dropout_p", dropout_p) < 1.0:
        raise InvalidArgument(f"dropout_p={dropout_p!r}: expected a number in [0, 1)")
    span = max(k.shape[2], q_offset + q.shape[2])
    if isinstance(pattern, torch.Tensor):
        _check_mask(pattern, (q.shape[0], q.shape[1], q_offset + q.shape[2], k.shape[2]))
    call = Call(
        q=q,
        k=k,
        v=v,
        mask_mod=None if pattern is None else resolve(pattern, span),
        key_mask=_check_key_mask(key_mask, k),
        bias=_check_term("bias", bias, q, k),
        gain=_check_term("gain", gain, q, k),
        score_mod=score_mod,
        weight_mod=weight_mod,
        prob_map=resolve_prob_map(prob_map),
        scale=q.shape[3] ** -0.5 if scale is None else finite("scale", scale),
        is_causal=is_causal,
        dropout_p=dropout_p,
        q_offset=q_offset,
    )
    out, lse = _BACKENDS[one_of("backend", backend, _BACKENDS)](call)
    return (out, lse) if return_lse else out


def _check_shapes(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, enable_gqa: bool) -> None:
    shapes = ", ".join(f"{name} {tuple(t.shape)}" for name, t in (("q", q), ("k", k), ("v", v)))
    if q.ndim != 4 or k.ndim != 4 or v.ndim != 4:
        raise InvalidArgument(f"{shapes}: expected (batch, heads, tokens, features) each")
    if q.shape[0] != k.shape[0] or k.shape[:3] != v.shape[:3] or q.shape[3] != k.shape[3]:
        raise InvalidArgument(
            f"{shapes}: expected q (B, H, N, D), k (B, H, M, D), v (B, H, M, E) with equal B, M, D"
        )
    if q.shape[1] != k.shape[1] and not (enable_gqa and q.shape[1] % k.shape[1] == 0):
        raise InvalidArgument(
            f"{shapes}: q has {q.shape[1]} heads, k and v have {k.shape[1]}; expected equal "
            "numbers, or enable_gqa=True and a divisor"
        )
    if not q.dtype == k.dtype == v.dtype or not q.dtype.is_floating_point:
        raise InvalidArgument(
            f"q {q.dtype}, k {k.dtype}, v {v.dtype}: expected one floating-point dtype"
        )


def _check_mask(mask: torch.Tensor, full: tuple[int, int, int, int]) -> None:
    """A mask tensor has all its rows and columns; batch and heads may be 1, or missing."""
    shape = tuple(mask.shape)
    lead = shape[:-2]
    fits = shape[-2:] == full[2:] and all(
        size in (1, whole_) for size, whole_ in zip(lead[::-1], (full[1], full[0]), strict=False)
    )
    if not fits:
        raise InvalidArgument(
            f"pattern: a mask of shape {shape}; expected (N, M) = {full[2:]}, or with heads and "
            f"batch before it: (B, H, N, M) = {full}"
        )


def _check_key_mask(key_mask: torch.Tensor | None, k: torch.Tensor) -> torch.Tensor | None:
    expected = (k.shape[0], k.shape[2])
    if key_mask is not None and (key_mask.dtype != torch.bool or key_mask.shape != expected):
        raise InvalidArgument(
            f"key_mask of dtype {key_mask.dtype} and shape {tuple(key_mask.shape)}: expected bool "
            f"of shape (B, M) = {expected}, True = may be seen"
        )
    return key_mask


def _check_term(
    name: str, term: torch.Tensor | Toeplitz | None, q: torch.Tensor, k: torch.Tensor
) -> torch.Tensor | Toeplitz | None:
    if term is None:
        return None
    full = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    if isinstance(term, Toeplitz):
        heads = term.coefficients.shape[0]
        if heads not in (1, q.shape[1]):
            raise InvalidArgument(f"{name}: Toeplitz of {heads} heads, expected 1 or {q.shape[1]}")
        return term
    try:
        fits = torch.broadcast_shapes(tuple(term.shape), full) == full
    except RuntimeError:
        fits = False
    if not fits:
        raise InvalidArgument(
            f"{name} of shape {tuple(term.shape)}: expected one that broadcasts to "
            f"(B, H, N, M) = {full}"
        )
    return term
