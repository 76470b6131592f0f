"""Multi-head attention with heads of any size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from warnings import warn

import torch
from torch import nn
from torch.nn.functional import linear

from anyseq.base import at_least_one, finite, positive
from anyseq.errors import InvalidArgument
from anyseq.nn.attention_position import AttentionPosition, attention_position
from anyseq.nn.cache import LayerCache
from anyseq.nn.found import Found, found
from anyseq.nn.norms import Norms
from anyseq.nn.sinks import BesideSink
from anyseq.ops import (
    Call,
    Term,
    attend,
    attention,
    check_documents,
    check_key_mask,
    check_term,
    prepare,
    who,
)
from anyseq.patterns import PatternLike
from anyseq.positions import GridToeplitz, NoPosition, Place, Position, Toeplitz
from anyseq.probability import ProbMap, Softmax, resolve_prob_map


class HeadWeights(NamedTuple):
    """q, k, v: (heads · size, dim); q_bias: (heads · size,); o: (dim, heads · size)."""

    q: torch.Tensor
    q_bias: torch.Tensor | None
    k: torch.Tensor
    v: torch.Tensor
    o: torch.Tensor


def multi_head(
    x: torch.Tensor,
    weights: HeadWeights,
    *,
    heads: int,
    pattern: PatternLike,
    prob_map: ProbMap,
    scale: float | None,
) -> torch.Tensor:
    """Σ_heads ρ((x W_Q + b_Q)(x W_K)^T scale, masked) x W_V W_O for x (batch, tokens, dim)."""
    projected = (
        linear(x, weights.q, weights.q_bias),
        linear(x, weights.k),
        linear(x, weights.v),
    )
    q, k, v = (_split(side, heads) for side in projected)
    mixed = attention(q, k, v, pattern=pattern, prob_map=prob_map, scale=scale)
    return linear(_join(mixed), weights.o)


class Attention(nn.Module):
    """Attention over one sequence; the residual is the block's.

    Σ_heads [ρ((x W_Q + b_Q)(x W_K)^T scale + B, masked) ∘ C] x W_V W_O.

    head_dim: the size of a head, dim / heads unless given; 1 is allowed.
    kv_heads: how many heads of keys and values the query heads share; a divisor of heads.
    causal: token i attends to tokens 0, ..., i at most, whatever the pattern.
    position: a Position without a part at the input, or a module that `attention_position` made.
    tokens: the longest sequence, where the position has a learned number for every offset.
    biases: which projections add a learned vector, letters of "qkvo". The papers' constructions
        need that of the queries.
    qk_norm: norms of queries and keys, head by head, before positions turn them: "rmsnorm" or
        "layernorm", or None.
    softcap: scores s become softcap·tanh(s / softcap).
    gate: the heads' output is multiplied by σ(x W_G) before W_O.
    scale: 1/sqrt(head_dim) unless given.
    sinks: a learned score per head that takes weight and gives no value.
    dropout: the share of attention weights that training sets to 0.
    query_bias: deprecated; `biases` says it.
    """

    def __init__(
        self,
        dim: int,
        heads: int = 1,
        head_dim: int | None = None,
        *,
        kv_heads: int | None = None,
        pattern: PatternLike = None,
        causal: bool = False,
        prob_map: str | ProbMap = "softmax",
        position: Position | AttentionPosition | None = None,
        tokens: int | None = None,
        biases: str = "q",
        qk_norm: str | Norms | None = None,
        softcap: float | None = None,
        gate: bool = False,
        scale: float | None = None,
        sinks: bool = False,
        dropout: float = 0.0,
        backend: str = "auto",
        query_bias: bool | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        at_least_one("dim", dim)
        at_least_one("heads", heads)
        if query_bias is not None:
            biases = "q" if query_bias else ""
            old, now = f"query_bias={query_bias}", f'biases="{biases}"'
            text = f"Attention({old}) will be an error in anyseq 0.2; it is {now} now"
            warn(text, DeprecationWarning, stacklevel=2)
        if head_dim is None:
            if dim % heads:
                raise InvalidArgument(
                    f"dim={dim} is not a multiple of heads={heads}; give head_dim, or other heads"
                )
            head_dim = dim // heads
        self.dim, self.heads, self.head_dim = dim, heads, at_least_one("head_dim", head_dim)
        self.kv_heads = heads if kv_heads is None else at_least_one("kv_heads", kv_heads)
        if heads % self.kv_heads:
            raise InvalidArgument(f"kv_heads={kv_heads}: expected a divisor of heads={heads}")
        if not isinstance(causal, bool):
            raise InvalidArgument(f"causal={causal!r}: expected True or False")
        self.pattern, self.causal = prepare(pattern, backend), causal
        self.prob_map, self.backend = resolve_prob_map(prob_map), backend
        self.scale = None if scale is None else finite("scale", scale)
        self.softcap = None if softcap is None else positive("softcap", softcap)
        self.dropout = check_dropout(dropout)
        if not isinstance(biases, str) or set(biases) - set("qkvo"):
            raise InvalidArgument(f'biases={biases!r}: expected letters of "qkvo", or ""')

        def projection(size_in: int, size_out: int, name: str) -> nn.Linear:
            return nn.Linear(size_in, size_out, bias=name in biases, dtype=dtype, device=device)

        inner, inner_kv = heads * head_dim, self.kv_heads * head_dim
        self.q_proj = projection(dim, inner, "q")
        self.k_proj = projection(dim, inner_kv, "k")
        self.v_proj = projection(dim, inner_kv, "v")
        self.o_proj = projection(inner, dim, "o")
        self.gate_proj = projection(dim, inner, "gate") if gate else None
        self.q_norm, self.k_norm = None, None
        if qk_norm is not None:
            norms = Norms.of(qk_norm)
            self.q_norm, self.k_norm = (norms.make(head_dim, dtype, device) for _ in range(2))
        self.sink = nn.Parameter(torch.zeros(heads, dtype=dtype, device=device)) if sinks else None
        if not isinstance(position, AttentionPosition):
            position = _inside("position", position or NoPosition())
            position = attention_position(
                position,
                heads=heads,
                head_dim=head_dim,
                tokens=tokens,
                dtype=dtype,
                device=device,
            )
        self.position = position

    def forward(
        self,
        x: torch.Tensor,
        *,
        key_mask: torch.Tensor | None = None,
        document_ids: torch.Tensor | None = None,
        positions: torch.Tensor | None = None,
        cache: LayerCache | None = None,
        bias: torch.Tensor | Toeplitz | GridToeplitz | None = None,
        gain: torch.Tensor | Toeplitz | None = None,
    ) -> torch.Tensor:
        """(batch, tokens, dim) -> (batch, tokens, dim).

        key_mask: (batch, keys) bool, False for padding.
        document_ids: (batch, tokens) whole numbers: tokens attend to their own document only.
        positions: (batch, keys) where a pattern that depends on more than i - j finds each token;
            0, 1, ... unless given.
        cache: what came before x; x is added to it.
        bias, gain: as in `anyseq.attention`, where the position has none of its own.
        """
        if x.ndim != 3 or x.shape[2] != self.dim:
            raise InvalidArgument(
                f"x of shape {tuple(x.shape)}: expected (batch, tokens, dim) with dim={self.dim}"
            )
        first, position = 0 if cache is None else cache.length, self.position
        q = _split(self.q_proj(x), self.heads)
        k, v = (_split(part(x), self.kv_heads) for part in (self.k_proj, self.v_proj))
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = position.turn(q, first), position.turn(k, first)
        if cache is not None:
            k, v = cache.append(k, v)
        seen = found(self.pattern, self.causal, first, x.shape[1], positions, cache)
        keys = seen.span(x.shape[1], k.shape[2])
        terms = (
            _only_one("bias", bias, position.bias(q, self._scale, keys, seen.first)),
            _only_one("gain", gain, position.gain()),
        )
        if positions is not None and isinstance(terms[0], GridToeplitz):
            raise InvalidArgument(
                "positions, which documents and padding on the left need: a bias over the "
                f"offsets of an array of shape {terms[0].shape} finds token i in cell i; expected "
                "one array a row, without padding before it"
            )
        call = self._call(q, k, position.open_values(v), key_mask, document_ids, terms, seen)
        mixed, lse = attend(call, self.backend)
        if call.return_lse and self.sink is not None and lse is not None:
            # the sum that softmax divides by becomes e^lse + e^sink
            mixed = mixed * torch.sigmoid(lse - self.sink[:, None])[..., None]
        mixed = _join(position.close_values(mixed, v.shape[3], seen.first))
        if self.gate_proj is not None:
            mixed = mixed * self.gate_proj(x).sigmoid()
        out: torch.Tensor = self.o_proj(mixed)
        return out

    @property
    def _scale(self) -> float:
        return self.head_dim**-0.5 if self.scale is None else self.scale

    def _call(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        key_mask: torch.Tensor | None,
        document_ids: torch.Tensor | None,
        terms: Sequence[Term | None],
        seen: Found,
    ) -> Call:
        """The call of the operator. q, k and v fit together by construction, so this is not
        checked."""
        full = (*q.shape[:3], k.shape[2])
        bias, gain = (
            None
            if term is None
            else check_term(name, seen.term(term, full[2]), full, q, seen.first)
            for name, term in zip(("bias", "gain"), terms, strict=True)
        )
        if document_ids is not None:
            document_ids = check_documents(document_ids, full, seen.first, k)
        softmax = type(self.prob_map) is Softmax
        return Call(
            q,
            k,
            v,
            *who(seen.pattern, full, seen.first, q.device),
            key_mask=None if key_mask is None else check_key_mask(seen.columns(key_mask), k),
            document_ids=document_ids,
            bias=bias,
            gain=gain,
            softcap=self.softcap,
            score_mod=None,
            weight_mod=None,
            prob_map=self.prob_map
            if self.sink is None or softmax
            else BesideSink(self.prob_map, self.sink),
            scale=self._scale,
            is_causal=seen.causal,
            dropout_p=self.dropout if self.training else 0.0,
            q_offset=seen.first,
            return_lse=self.sink is not None and softmax,
        )


def check_dropout(dropout: object) -> float:
    """`dropout` as a number in [0, 1)."""
    if not 0.0 <= finite("dropout", dropout) < 1.0:
        raise InvalidArgument(f"dropout={dropout!r}: expected a number in [0, 1)")
    return finite("dropout", dropout)


def _split(x: torch.Tensor, heads: int) -> torch.Tensor:
    """(batch, tokens, heads·size) -> (batch, heads, tokens, size)."""
    return x.view(*x.shape[:-1], heads, x.shape[-1] // heads).transpose(1, 2)


def _join(x: torch.Tensor) -> torch.Tensor:
    """The inverse of `_split`."""
    return x.transpose(1, 2).flatten(2)


def _inside(name: str, position: object) -> Position:
    if not isinstance(position, Position):
        raise InvalidArgument(f"{name}={position!r}: expected a Position such as Rotary()")
    if Place.INPUT in position.acts_in:
        raise InvalidArgument(
            f"{name}={position!r}: acts on the input, before attention; use a Transformer, or add "
            "the vectors to x"
        )
    return position


def _only_one(name: str, given: Term | None, own: Term | None) -> Term | None:
    if given is not None and own is not None:
        raise InvalidArgument(f"{name}: given, but the position of this layer has one of its own")
    return own if given is None else given
