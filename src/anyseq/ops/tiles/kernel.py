"""Attention of one head over a layout: forward and backward, tile by tile.

With S = softcap(q k^T·scale + bias) (FORBIDDEN where masked), P = exp(S - lse) and
A = P ∘ gain ∘ keep, where keep is what dropout leaves of the weights:

    out = A v,   dv = A^T dout,   dA = dout v^T,   dgain = dA ∘ P ∘ keep,
    dS = P ∘ (dA ∘ gain ∘ keep - δ) ∘ softcap',   δ = Σ_e dout ∘ out - dlse,
    dbias = dS,   dq = dS k·scale,   dk = dS^T q·scale.

Every pass of the layout gives a part of these sums. Forward, parts are merged by their log-sum-exp;
backward, lse and δ of the whole row are known, so that parts simply add up. P is recomputed there:
nothing of size N x M is ever kept.

Scores are held in base 2 (times log2 e): unlike exp, exp2 has no slow path for what underflows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import log

import torch
from torch.nn.functional import threshold

from anyseq.ops.layout import FORBIDDEN, Layout, Pass, Run
from anyseq.ops.tiles.scratch import Scratch
from anyseq.ops.tiles.terms import Mask, Term, askew

_LN_2 = log(2.0)


@dataclass
class Head:
    """What one head works on: q (N, D), k (M, D), v (M, E), contiguous, and what acts on its
    scores. documents: of queries (N,) and keys (M,). key_penalty (M,) is added to the scores;
    dropout_p of the weights are dropped, by `random`."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    scale: float
    softcap: float
    bias: Term | None
    gain: Term | None
    mask: Mask | None
    documents: tuple[torch.Tensor, torch.Tensor] | None
    key_penalty: torch.Tensor | None
    dropout_p: float
    random: torch.Generator | None

    def picked(self, part: Pass, scratch: Scratch) -> Head:
        """The same with the pass's queries and keys, in its order."""
        q, k, v, penalty = self.q, self.k, self.v, self.key_penalty
        if part.picks_rows:
            q = scratch.pick("q", q, part.rows)
        if part.picks_columns:
            k, v = scratch.pick("k", k, part.columns), scratch.pick("v", v, part.columns)
            if penalty is not None:
                penalty = scratch.pick("penalty", penalty, part.columns)
        return replace(self, q=q, k=k, v=v, key_penalty=penalty)


@dataclass
class Sums:
    """Sums that are added to, shaped as q, k and v."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor


def forward(
    head: Head, layout: Layout, scratch: Scratch, out: torch.Tensor, lse: torch.Tensor
) -> None:
    """Fill out (N, E) and lse (N,); a row that sees nothing gets 0 and -inf."""
    if not layout.begins_full:
        out.zero_()
        lse.fill_(FORBIDDEN)  # in base 2 until the end
    for number, part in enumerate(layout.passes):
        if number == 0 and not part.picks_rows:
            _forward_pass(head.picked(part, scratch), part, scratch, out, lse)
        else:
            some_out = scratch.zeros("some_out", len(part.rows), out.shape[1])
            some_lse = scratch.take("some_lse", len(part.rows)).fill_(FORBIDDEN)
            _forward_pass(head.picked(part, scratch), part, scratch, some_out, some_lse)
            _merge(out, lse, part, some_out, some_lse, scratch)
    empty = lse <= FORBIDDEN / 2
    out.masked_fill_(empty[:, None], 0.0)
    lse.mul_(_LN_2).masked_fill_(empty, -torch.inf)


def backward(
    head: Head,
    layout: Layout,
    scratch: Scratch,
    lse: torch.Tensor,
    out_gradient: torch.Tensor,
    delta: torch.Tensor,
    into: Sums,
) -> None:
    """Add the gradients of k and v to `into`, those of bias and gain to their terms; write that of
    q. lse, delta: (N,); out_gradient: (N, E), contiguous.
    """
    if not layout.begins_full:
        into.q.zero_()
    # A row that sees nothing has P = 0: exp2(S - a very large number).
    shift = (lse / _LN_2).masked_fill(lse == -torch.inf, -FORBIDDEN)
    for number, part in enumerate(layout.passes):
        some = head.picked(part, scratch)
        dout, some_shift, some_delta = out_gradient, shift, delta
        if part.picks_rows:
            dout = scratch.pick("dout", dout, part.rows)
            some_shift = scratch.pick("shift", shift, part.rows)
            some_delta = scratch.pick("delta", delta, part.rows)
        sums = Sums(
            scratch.zeros("dq", *some.q.shape) if part.picks_rows else into.q,
            scratch.zeros("dk", *some.k.shape) if part.picks_columns else into.k,
            scratch.zeros("dv", *some.v.shape) if part.picks_columns else into.v,
        )
        for tiles in _tiles(some, part, scratch):
            weights = _powers(tiles.scores, tiles.run.of_rows(some_shift)[..., None])
            fresh = number == 0 and layout.begins_full
            change = _backward_tiles(some, part, tiles, weights, dout, some_delta, sums, scratch)
            into_q, k = tiles.run.of_rows(sums.q), tiles.run.of_columns(some.k)
            _product(into_q, change, k, 0 if fresh else 1, some.scale, scratch)
        if part.picks_rows:
            into.q.index_add_(0, part.rows, sums.q)
        if part.picks_columns:
            into.k.index_add_(0, part.columns, sums.k)
            into.v.index_add_(0, part.columns, sums.v)


@dataclass
class _Tiles:
    """Some tiles of a run: their scores (tiles, height, width) in base 2, and what multiplies the
    weights: the gain, and what dropout keeps of them."""

    run: Run
    scores: torch.Tensor
    gain: torch.Tensor | None
    keep: torch.Tensor | None
    slope: torch.Tensor | None  # of the softcap


def _tiles(head: Head, part: Pass, scratch: Scratch) -> Iterator[_Tiles]:
    """All tiles of a pass, a run at a time; every run's arrays are the last one's again."""
    for run in part.runs:
        shape = (run.tiles, run.height, run.width)
        scores = scratch.take("scores", *shape)
        keys = run.of_columns(head.k).transpose(1, 2)
        scale = head.scale / _LN_2
        torch.baddbmm(scores, run.of_rows(head.q), keys, beta=0, alpha=scale, out=scores)
        if head.bias is not None:
            scores.add_(head.bias.tile(part, run), alpha=1 / _LN_2)
        slope = None
        if head.softcap:
            cap = head.softcap / _LN_2
            bent = scores.div_(cap).tanh_()
            slope = torch.mul(bent, bent, out=scratch.take("slope", *shape)).neg_().add_(1.0)
            scores.mul_(cap)
        for patch in run.patches:
            scores.narrow(2, patch.start, patch.penalty.shape[2]).add_(patch.penalty)
        if head.mask is not None:
            scores.masked_fill_(head.mask.tile(part, run), FORBIDDEN)
        if head.documents is not None:
            scores.masked_fill_(_apart(head.documents, part, run), FORBIDDEN)
        if head.key_penalty is not None:
            scores.add_(run.of_columns(head.key_penalty)[:, None, :])
        gain = None if head.gain is None else head.gain.tile(part, run)
        yield _Tiles(run, scores, gain, _keep(head, shape, scratch), slope)


def _apart(documents: tuple[torch.Tensor, torch.Tensor], part: Pass, run: Run) -> torch.Tensor:
    """(tiles, height, width) bool: which pairs are of different documents."""
    of_queries, of_keys = documents
    i, j = of_queries[run.of_rows(part.rows)], of_keys[run.of_columns(part.columns)]
    return i[:, :, None] != j[:, None, :]


def _keep(head: Head, shape: tuple[int, ...], scratch: Scratch) -> torch.Tensor | None:
    """0 where dropout takes a weight, 1/(1-p) where it leaves one. The backward pass asks in the
    same order from a generator in the same state, and so gets the same answers."""
    if head.random is None:
        return None
    keep = scratch.take("keep", *shape).bernoulli_(1 - head.dropout_p, generator=head.random)
    return keep.div_(1 - head.dropout_p)


def _powers(scores: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """2^(scores - shift), in place. What would be subnormal is 0: products with it crawl."""
    smallest = {torch.float32: -126.0, torch.float64: -1022.0}[scores.dtype]
    return threshold(scores.sub_(shift), smallest, FORBIDDEN, inplace=True).exp2_()


def _forward_pass(
    head: Head, part: Pass, scratch: Scratch, out: torch.Tensor, lse: torch.Tensor
) -> None:
    """Fill out (R, E) and lse (R,), in base 2, for the rows of the pass."""
    for tiles in _tiles(head, part, scratch):
        run = tiles.run
        # A bias of -inf forbids as well; where it does so in all of a row, its weights are 0.
        top = tiles.scores.amax(-1, keepdim=True).clamp_(min=FORBIDDEN)
        weights = _powers(tiles.scores, top)
        total = weights.sum(-1, keepdim=True).clamp_(min=1.0)
        run.of_rows(lse).copy_(total.log2().add_(top)[..., 0])
        for factor in (tiles.gain, tiles.keep):
            if factor is not None:
                weights.mul_(factor)
        mixed = run.of_rows(out)
        _product(mixed, weights, run.of_columns(head.v), 0, 1.0, scratch)
        mixed.div_(total)


def _merge(
    out: torch.Tensor,
    lse: torch.Tensor,
    part: Pass,
    some_out: torch.Tensor,
    some_lse: torch.Tensor,
    scratch: Scratch,
) -> None:
    """Take the outputs of a pass (R, E), (R,) into those of all passes before it (N, E), (N,)."""
    before = lse.index_select(0, part.rows) if part.picks_rows else lse
    both = torch.logaddexp2(before, some_lse)
    old, new = (before - both).exp2_()[:, None], (some_lse - both).exp2_()[:, None]
    if part.picks_rows:
        mixed = scratch.pick("mixed", out, part.rows).mul_(old).addcmul_(some_out, new)
        out.index_copy_(0, part.rows, mixed)
        lse.index_copy_(0, part.rows, both)
    else:
        out.mul_(old).addcmul_(some_out, new)
        lse.copy_(both)


def _backward_tiles(
    head: Head,
    part: Pass,
    tiles: _Tiles,
    weights: torch.Tensor,
    out_gradient: torch.Tensor,
    delta: torch.Tensor,
    sums: Sums,
    scratch: Scratch,
) -> torch.Tensor:
    """Add what these tiles, of weights P, contribute to all gradients but that of q; give dS."""
    run, shape = tiles.run, tuple(weights.shape)
    q, v = run.of_rows(head.q), run.of_columns(head.v)
    dout = run.of_rows(out_gradient)

    scaled = weights
    for factor in (tiles.gain, tiles.keep):
        if factor is not None:
            scaled = torch.mul(scaled, factor, out=scratch.take("scaled", *shape))
    _add_product(sums.v, run, scaled.transpose(1, 2), dout, 1.0, scratch)

    change = torch.bmm(dout, v.transpose(1, 2), out=scratch.take("change", *shape))
    if tiles.keep is not None:
        change.mul_(tiles.keep)
    if head.gain is not None and tiles.gain is not None:
        if head.gain.wants_gradient:
            to_gain = _storage(part, shape, scratch)
            head.gain.collect(part, run, torch.mul(change, weights, out=to_gain))
        change.mul_(tiles.gain)
    change.sub_(run.of_rows(delta)[..., None])
    if tiles.slope is not None:
        change.mul_(tiles.slope)
    if head.bias is not None and head.bias.wants_gradient:
        change = torch.mul(change, weights, out=_storage(part, shape, scratch))
        head.bias.collect(part, run, change)
    else:
        change.mul_(weights)

    _add_product(sums.k, run, change.transpose(1, 2), q, head.scale, scratch)
    return change


def _storage(part: Pass, shape: tuple[int, ...], scratch: Scratch) -> torch.Tensor:
    """Where a gradient that a term will collect is written: askew if the pass goes backward. Tiles
    of one shape write the same places, so that the others stay 0."""
    if not part.backward:
        return scratch.take("collected", *shape)
    _, height, width = shape
    return askew(scratch.blank("askew", height, height + width), height, width)


def _add_product(
    into: torch.Tensor,
    run: Run,
    left: torch.Tensor,
    right: torch.Tensor,
    scale: float,
    scratch: Scratch,
) -> None:
    """Add left @ right·scale (tiles, width, ·) to the columns (C, ·) of the tiles. Neighbours may
    share columns: the product is taken in strips so narrow that within one they do not."""
    step = run.column_step
    if run.tiles == 1 or step >= run.width:
        step = run.width
    for first in range(0, run.width, step):
        strip = left[:, first : first + step]
        _product(run.of_columns(into, first, strip.shape[1]), strip, right, 1, scale, scratch)


def _product(
    into: torch.Tensor,
    left: torch.Tensor,
    right: torch.Tensor,
    keep: int,
    scale: float,
    scratch: Scratch,
) -> None:
    """into·keep + left @ right·scale, in place. torch multiplies batches well only into arrays
    without gaps."""
    if into.is_contiguous():
        torch.baddbmm(into, left, right, beta=keep, alpha=scale, out=into)
        return
    product = scratch.take("product", *into.shape)
    torch.baddbmm(product, left, right, beta=0, alpha=scale, out=product)
    into.add_(product) if keep else into.copy_(product)
