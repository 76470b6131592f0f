"""All heads of a job by the native kernel."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import torch
from torch import Tensor

from anyseq.errors import InvalidArgument
from anyseq.ops.job import Gradients, Job, Returning, room_for
from anyseq.ops.layout import Sizes, cover
from anyseq.ops.native.call import Arguments, Sums, reversed_table, run
from anyseq.ops.native.library import Native, loaded
from anyseq.ops.native.table import GRAIN, Table, table
from anyseq.patterns import Pattern

_KEPT = 1 << 24  # gradients of scores that are kept until they are summed to those of a term


def forward(job: Job) -> tuple[Tensor, Tensor]:
    """out (B, H, N, E) and lse (B, H, N)."""
    out, lse = job.new_out()
    run(_native(), _arguments(job, out, lse))
    return out, lse


def backward(job: Job, returning: Returning) -> Gradients:
    """The gradients of q, k, v and, where wanted, of bias and gain."""
    native = _native()
    dq, dk, dv = (room_for(side) for side in (job.q, job.k, job.v))
    given = _arguments(job, returning.out, returning.lse)
    dout, dlse = _side_by_side(returning.out_gradient), returning.lse_gradient
    learned = (
        job.bias if returning.wants_bias else None,
        job.gain if returning.wants_gain else None,
    )
    dbias, dgain = (None if term is None else torch.zeros_like(term) for term in learned)
    placed = (job.places is not None, False)
    # Of a term that batch rows or heads share, the kernel gives each pair's gradient, to be summed:
    # for so many batch rows at a time.
    batch, pairs = len(job.q), job.q.shape[1] * prod(job.sizes[:2])
    dense = any(term is not None and term.ndim == 4 for term in learned)
    step = max(1, _KEPT // max(1, pairs)) if dense else batch
    for first in range(0, batch, step):
        rows = slice(first, first + step)
        parts = [
            _room(term, given.of(rows), by_place)
            for term, by_place in zip(learned, placed, strict=True)
        ]
        own_dlse = None if dlse is None else dlse[rows].contiguous()
        run(
            native,
            given.of(rows),
            Sums(dout[rows], own_dlse, dq[rows], dk[rows], dv[rows], *parts),
        )
        for part, total, by_place in zip(parts, (dbias, dgain), placed, strict=True):
            if part is not None and total is not None:
                _add(part, job.sizes, rows, total, by_place)
    return Gradients(dq, dk, dv, dbias, dgain)


def _native() -> Native:
    """The kernel; a graph may have been made where there is one, and be run where there is none."""
    found = loaded()
    if isinstance(found, str):
        raise InvalidArgument(f"backend='native': there is no native kernel here: {found}")
    return found


def _table_of(pattern: Pattern, sizes: Sizes) -> Table:
    """The tiles of a pattern, as the kernel reads them."""
    return _remembered(pattern, sizes) if pattern.lasting else _table(pattern, sizes)


def _table(pattern: Pattern, sizes: Sizes) -> Table:
    return table(cover(pattern, sizes, GRAIN))


_remembered = lru_cache(maxsize=64)(_table)


def _arguments(job: Job, out: Tensor, lse: Tensor) -> Arguments:
    sizes = job.sizes
    mask, key_mask, interval = job.mask, job.key_mask, None
    if job.documents is not None:
        interval = _stretches(job)
        if interval is None:  # documents in pieces
            apart = job.query_documents()[:, None, :, None] == job.documents[:, None, None, :]
            mask = apart if mask is None else mask & apart
    bias, gain = _term(job.bias, sizes, job.places), _term(job.gain, sizes)
    return Arguments(
        _side_by_side(job.q), _side_by_side(job.k), _side_by_side(job.v), out, lse,
        [_table_of(pattern, sizes) for pattern in job.pattern.heads()],
        job.scale, job.softcap, job.dropout_p, job.seed,
        mask, None if key_mask is None else key_mask.contiguous(), interval, bias, gain,
        None if job.places is None else job.places.contiguous(), job.q_offset,
    )  # fmt: skip


def _term(term: Tensor | None, sizes: Sizes, places: Tensor | None = None) -> Tensor | None:
    """A bias or gain as the kernel reads it."""
    if term is None or term.ndim == 4:
        return None if term is None else term.resolve_neg()
    if places is not None:
        return term.resolve_neg().contiguous()
    return reversed_table(term, *sizes)


def _stretches(job: Job) -> Tensor | None:
    """(B, N, 2) int32: where each query's document begins and ends; None if one is in pieces."""
    assert job.documents is not None
    documents, keys = job.documents, job.sizes.keys
    begins = torch.ones_like(documents, dtype=torch.bool)
    begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
    for row, own in zip(documents, begins, strict=True):
        if len(torch.unique(row[own])) < int(own.sum()):
            return None
    place = torch.arange(keys)
    first = torch.where(begins, place, 0).cummax(1).values
    ends = torch.ones_like(begins)
    ends[:, :-1] = begins[:, 1:]
    last = torch.where(ends, place + 1, keys).flip(1).cummin(1).values.flip(1)
    rows = slice(job.q_offset, job.q_offset + job.sizes.queries)
    return torch.stack([first[:, rows], last[:, rows]], -1).to(torch.int32).contiguous()


def _side_by_side(given: Tensor) -> Tensor:
    """With features side by side, and as they are meant, not negated."""
    given = given.resolve_neg()
    if given.stride(3) == 1 or given.shape[3] == 1:
        return given
    return given.clone(memory_format=torch.contiguous_format)


def _room(term: Tensor | None, given: Arguments, placed: bool) -> Tensor | None:
    """For the gradient of a term: of each pair, or of each offset; or the whole table, if places
    tell where in it."""
    if term is None:
        return None
    batch, heads, queries, _ = given.q.shape
    keys = given.k.shape[2]
    if placed:
        return term.new_empty(batch, heads, term.shape[1])
    if term.ndim == 2:
        return term.new_empty(batch, heads, queries + keys - 1)
    return term.new_zeros(batch, heads, queries, keys)


def _add(part: Tensor, sizes: Sizes, rows: slice, total: Tensor, placed: bool) -> None:
    """Sum the gradients of some batch rows to those of the term."""
    if placed:
        total += part.sum(0).sum_to_size(total.shape)
        return
    if total.ndim == 2:
        reach, count = total.shape[1] // 2, part.shape[2]
        first = reach - (sizes.keys - 1 - sizes.q_offset)
        by_head = part.sum(0).flip(1)
        total[:, first : first + count] += by_head.sum_to_size(len(total), count)
        return
    into = total[rows] if len(total) > 1 else total
    into += part.sum_to_size(into.shape)
