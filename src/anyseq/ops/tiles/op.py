"""The tiles as operators, which torch.compile keeps whole, with their gradients.

Arguments of both operators:

q (B, H, N, D), k (B, G, M, D), v (B, G, M, E), with G a divisor of H.
mask: bool, four axes, each of full size or 1. key_mask: (B, M) bool. True = may attend.
bias, gain: (H or 1, 2r+1) coefficients of a Toeplitz matrix, or four axes of full size or 1.
seed: () int64, for dropout.
pattern: its key (see `keys`), or "" for none; is_causal: and j <= i.
whole_rows: tiles of all keys, instead of those that cover the pattern.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from anyseq.ops.tiles.bands import Sizes
from anyseq.ops.tiles.cover import cover
from anyseq.ops.tiles.dense import dense
from anyseq.ops.tiles.formula import differentiable_gradients
from anyseq.ops.tiles.kernel import Gradients, Head, backward, forward
from anyseq.ops.tiles.keys import combined
from anyseq.ops.tiles.layout import FORBIDDEN, Layout
from anyseq.ops.tiles.scratch import Scratch
from anyseq.ops.tiles.terms import GivenTerm, Mask, Term, ToeplitzTerm
from anyseq.patterns import Causal, Full, Pattern

_TENSORS = 8  # arguments, before the plain ones


@dataclass
class Job:
    """The arguments, in the type they are computed in."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    key_mask: Tensor | None
    bias: Tensor | None
    gain: Tensor | None
    seed: Tensor | None
    pattern: Pattern
    scale: float
    dropout_p: float
    q_offset: int
    whole_rows: bool

    @property
    def sizes(self) -> Sizes:
        return Sizes(self.q.shape[2], self.k.shape[2], self.q_offset)

    def heads(
        self, bias_gradient: Tensor | None = None, gain_gradient: Tensor | None = None
    ) -> Iterator[tuple[int, int, int, Head, Layout]]:
        """(batch row, head, its head of k and v, what it works on, over which tiles)."""
        groups = self.q.shape[1] // self.k.shape[1]
        random = None
        if self.seed is not None:
            random = torch.Generator(self.q.device).manual_seed(int(self.seed))
        patterns = self.pattern.heads()
        for b in range(self.q.shape[0]):
            penalty = None
            if self.key_mask is not None:
                penalty = torch.where(self.key_mask[b], 0.0, FORBIDDEN).to(self.q.dtype)
            for h in range(self.q.shape[1]):
                pattern = patterns[h % len(patterns)]
                layout, mask = self._tiles(pattern, b, h)
                head = Head(
                    self.q[b, h],
                    self.k[b, h // groups],
                    self.v[b, h // groups],
                    self.scale,
                    _term(self.bias, bias_gradient, b, h, self.q_offset),
                    _term(self.gain, gain_gradient, b, h, self.q_offset),
                    mask,
                    penalty,
                    self.dropout_p,
                    random,
                )
                yield b, h, h // groups, head, layout

    def _tiles(self, pattern: Pattern, b: int, h: int) -> tuple[Layout, Mask | None]:
        given = None if self.mask is None else _of_head(self.mask, b, h)
        if not self.whole_rows:
            mask = None if given is None else Mask(given, self.q_offset)
            if pattern.lasting:
                return _covered(pattern, self.sizes, self.q.device), mask
            return cover.__wrapped__(pattern, self.sizes).to(self.q.device), mask
        terms = [term for term in (self.bias, self.gain) if term is not None]
        relative = bool(terms) and all(term.ndim == 2 for term in terms) and given is None
        layout = _dense(self.sizes, pattern == Causal(), relative, self.q.device)
        if given is not None:
            return layout, Mask(given, self.q_offset)
        if pattern in (Full(), Causal()):
            return layout, None
        return layout, Mask(pattern.at(self.sizes.span), self.q_offset)


@lru_cache(maxsize=64)
def _covered(pattern: Pattern, sizes: Sizes, device: torch.device) -> Layout:
    return cover(pattern, sizes).to(device)


@lru_cache(maxsize=16)
def _dense(sizes: Sizes, causal: bool, backward_rows: bool, device: torch.device) -> Layout:
    return dense(sizes, causal, backward_rows).to(device)


def _of_head(given: Tensor, b: int, h: int) -> Tensor:
    """(N or 1, M or 1) of a tensor with four axes, some of them shared."""
    return given[b if given.shape[0] > 1 else 0, h if given.shape[1] > 1 else 0]


def _term(
    given: Tensor | None, gradient: Tensor | None, b: int, h: int, q_offset: int
) -> Term | None:
    if given is None:
        return None
    if given.ndim == 2:
        row = h if len(given) > 1 else 0
        return ToeplitzTerm(given[row], None if gradient is None else gradient[row], q_offset)
    return GivenTerm(_of_head(given, b, h), None if gradient is None else _of_head(gradient, b, h))


def _job(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    key_mask: Tensor | None,
    bias: Tensor | None,
    gain: Tensor | None,
    seed: Tensor | None,
    pattern: str,
    is_causal: bool,
    scale: float,
    dropout_p: float,
    q_offset: int,
    whole_rows: bool,
) -> Job:
    # Half precision is computed in float32.
    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    return Job(
        q.to(dtype).contiguous(),
        k.to(dtype).contiguous(),
        v.to(dtype).contiguous(),
        mask,
        key_mask,
        None if bias is None else bias.to(dtype),
        None if gain is None else gain.to(dtype),
        seed,
        combined(pattern, is_causal),
        scale,
        dropout_p,
        q_offset,
        whole_rows,
    )


@torch.library.custom_op("anyseq::tiles", mutates_args=())
def tiles(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    key_mask: Tensor | None,
    bias: Tensor | None,
    gain: Tensor | None,
    seed: Tensor | None,
    pattern: str,
    is_causal: bool,
    scale: float,
    dropout_p: float,
    q_offset: int,
    whole_rows: bool,
) -> tuple[Tensor, Tensor]:
    """out (B, H, N, E) and lse (B, H, N); lse in float32 at least."""
    job = _job(
        q, k, v, mask, key_mask, bias, gain, seed, pattern, is_causal, scale,
        dropout_p, q_offset, whole_rows,
    )  # fmt: skip
    scratch = Scratch(job.q)
    out = job.q.new_empty(*q.shape[:3], v.shape[3])
    lse = job.q.new_empty(q.shape[:3])
    for b, h, _, head, layout in job.heads():
        forward(head, layout, scratch, out[b, h], lse[b, h])
    return out.to(q.dtype), lse


@tiles.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *arguments: object) -> tuple[Tensor, Tensor]:
    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    return q.new_empty(*q.shape[:3], v.shape[3]), q.new_empty(q.shape[:3], dtype=dtype)


@torch.library.custom_op("anyseq::tiles_backward", mutates_args=())
def tiles_backward(
    out_gradient: Tensor,
    lse_gradient: Tensor | None,
    out: Tensor,
    lse: Tensor,
    wants_bias: bool,
    wants_gain: bool,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    key_mask: Tensor | None,
    bias: Tensor | None,
    gain: Tensor | None,
    seed: Tensor | None,
    pattern: str,
    is_causal: bool,
    scale: float,
    dropout_p: float,
    q_offset: int,
    whole_rows: bool,
) -> list[Tensor]:
    """The gradients of q, k, v and, where wanted, of bias and gain."""
    job = _job(
        q, k, v, mask, key_mask, bias, gain, seed, pattern, is_causal, scale,
        dropout_p, q_offset, whole_rows,
    )  # fmt: skip
    scratch = Scratch(job.q)
    dout = out_gradient.to(job.q.dtype).contiguous()
    dq, dk, dv = torch.empty_like(job.q), torch.zeros_like(job.k), torch.zeros_like(job.v)
    dbias = torch.zeros_like(job.bias) if wants_bias and job.bias is not None else None
    dgain = torch.zeros_like(job.gain) if wants_gain and job.gain is not None else None
    for b, h, kv, head, layout in job.heads(dbias, dgain):
        into = Gradients(dq[b, h], dk[b, kv], dv[b, kv])
        product = scratch.take("product", *dout.shape[2:])
        delta = torch.mul(dout[b, h], out[b, h], out=product).sum(-1)
        if lse_gradient is not None:
            delta -= lse_gradient[b, h]
        backward(head, layout, scratch, lse[b, h], dout[b, h], delta, into)
    found = [(dq, q), (dk, k), (dv, v), (dbias, bias), (dgain, gain)]
    return [
        gradient.to(given.dtype)
        for gradient, given in found
        if gradient is not None and given is not None
    ]


@tiles_backward.register_fake
def _(
    out_gradient: Tensor,
    lse_gradient: Tensor | None,
    out: Tensor,
    lse: Tensor,
    wants_bias: bool,
    wants_gain: bool,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    key_mask: Tensor | None,
    bias: Tensor | None,
    gain: Tensor | None,
    *arguments: object,
) -> list[Tensor]:
    wanted = [q, k, v]
    wanted += [bias] if wants_bias and bias is not None else []
    wanted += [gain] if wants_gain and gain is not None else []
    return [torch.empty_like(side, memory_format=torch.contiguous_format) for side in wanted]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:_TENSORS], *output)
    ctx.plain = inputs[_TENSORS:]
    # The key alone would not keep a pattern around a function alive until the backward pass.
    ctx.pattern = combined(ctx.plain[0], ctx.plain[1])


def _backward(
    ctx: Any, out_gradient: Tensor, lse_gradient: Tensor | None
) -> tuple[Tensor | None, ...]:
    *tensors, out, lse = ctx.saved_tensors
    wants_bias, wants_gain = ctx.needs_input_grad[5:7]
    arguments = (*tensors, *ctx.plain)
    if torch.is_grad_enabled():  # the gradients will be differentiated again
        found = differentiable_gradients(
            out_gradient, lse_gradient, wants_bias, wants_gain, *arguments
        )
    else:
        found = tiles_backward(
            out_gradient, lse_gradient, out, lse, wants_bias, wants_gain, *arguments
        )
    dq, dk, dv, *rest = found
    dbias = rest.pop(0) if wants_bias else None
    dgain = rest.pop(0) if wants_gain else None
    return (dq, dk, dv, None, None, dbias, dgain, None, *(None for _ in ctx.plain))


tiles.register_autograd(_backward, setup_context=_setup_context)
