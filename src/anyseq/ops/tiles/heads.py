"""All heads of a job, tile by tile. On a CPU they are shared out to threads of one core each."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from threading import local

import torch
from torch import Tensor

from anyseq.base import share_out
from anyseq.ops.job import Gradients, Job, Returning, of_head, room_for, tiling
from anyseq.ops.layout import FORBIDDEN, Layout, Sizes
from anyseq.ops.tiles import kernel
from anyseq.ops.tiles.scratch import Scratch
from anyseq.ops.tiles.terms import GivenTerm, Mask, Term, ToeplitzTerm
from anyseq.patterns import Pattern


def forward(job: Job) -> tuple[Tensor, Tensor]:
    """out (B, H, N, E) and lse (B, H, N)."""
    out, lse = job.new_out()
    heads = _Heads(job)

    def work(b: int, h: int, scratch: Scratch) -> None:
        kernel.forward(heads.head(b, h), heads.layouts[h], scratch, out[b, h], lse[b, h])

    batch, count = job.q.shape[:2]
    heads.run(work, [[(b, h)] for b in range(batch) for h in range(count)])
    return out, lse


def backward(job: Job, returning: Returning) -> Gradients:
    """The gradients of q, k, v and, where wanted, of bias and gain."""
    found = Gradients(
        room_for(job.q),
        room_for(job.k).zero_(),
        room_for(job.v).zero_(),
        torch.zeros_like(job.bias) if returning.wants_bias and job.bias is not None else None,
        torch.zeros_like(job.gain) if returning.wants_gain and job.gain is not None else None,
    )
    heads, groups = _Heads(job), job.q.shape[1] // job.k.shape[1]

    def work(b: int, h: int, scratch: Scratch) -> None:
        dout = returning.out_gradient[b, h].contiguous()
        delta = torch.mul(dout, returning.out[b, h], out=scratch.take("product", *dout.shape))
        delta = delta.sum(-1)
        if returning.lse_gradient is not None:
            delta -= returning.lse_gradient[b, h]
        into = kernel.Sums(found.q[b, h], found.k[b, h // groups], found.v[b, h // groups])
        head = heads.head(b, h, found.bias, found.gain)
        kernel.backward(head, heads.layouts[h], scratch, returning.lse[b, h], dout, delta, into)

    heads.run(work, _apart(found))
    return found


def _apart(found: Gradients) -> list[list[tuple[int, int]]]:
    """Batch rows and heads in lists such that no two of them add to the same numbers."""
    (batch, heads), sides = found.q.shape[:2], found.k.shape[1]
    groups = heads // sides
    learned = [term for term in (found.bias, found.gain) if term is not None]
    if any(term.shape[0 if term.ndim == 2 else 1] == 1 for term in learned):
        return [[(b, h) for b in range(batch) for h in range(heads)]]
    of_side = [range(side * groups, (side + 1) * groups) for side in range(sides)]
    if learned:
        return [[(b, h) for b in range(batch) for h in own] for own in of_side]
    return [[(b, h) for h in own] for b in range(batch) for own in of_side]


class _Heads:
    """What each head of a job works on, and over which tiles."""

    def __init__(self, job: Job) -> None:
        self.job = job
        terms = [term for term in (job.bias, job.gain) if term is not None]
        relative = bool(terms) and all(term.ndim == 2 for term in terms)
        last_first = relative and job.mask is None and job.documents is None
        patterns = job.pattern.heads()
        layouts = [_layout(one, job.sizes, last_first, job.q.device) for one in patterns]
        self.layouts = [layouts[h % len(layouts)] for h in range(job.q.shape[1])]

    def run(
        self, work: Callable[[int, int, Scratch], None], tasks: list[list[tuple[int, int]]]
    ) -> None:
        """work(b, h, scratch) for the batch rows and heads of all tasks."""
        like, own = self.job.q.new_empty(0), local()

        def task(number: int) -> None:
            if not hasattr(own, "scratch"):
                own.scratch = Scratch(like)
            for b, h in tasks[number]:
                work(b, h, own.scratch)

        on_cpu = like.device.type == "cpu"
        share_out(task, len(tasks), torch.get_num_threads() if on_cpu else 1)

    def head(
        self,
        b: int,
        h: int,
        bias_gradient: Tensor | None = None,
        gain_gradient: Tensor | None = None,
    ) -> kernel.Head:
        job = self.job
        side = h // (job.q.shape[1] // job.k.shape[1])
        penalty, documents, random = None, None, None
        if job.key_mask is not None:
            penalty = torch.where(job.key_mask[b], 0.0, FORBIDDEN).to(job.q.dtype)
        if job.documents is not None:
            documents = (job.query_documents()[b], job.documents[b])
        if job.dropout_p:
            place = b * job.q.shape[1] + h
            random = torch.Generator(job.q.device).manual_seed((job.seed + place) % 2**62)
        return kernel.Head(
            job.q[b, h].contiguous(),
            job.k[b, side].contiguous(),
            job.v[b, side].contiguous(),
            job.scale,
            job.softcap,
            _term(job.bias, bias_gradient, b, h, job.q_offset),
            _term(job.gain, gain_gradient, b, h, job.q_offset),
            None if job.mask is None else Mask(of_head(job.mask, b, h)),
            documents,
            penalty,
            job.dropout_p,
            random,
        )


def _term(
    given: Tensor | None, gradient: Tensor | None, b: int, h: int, q_offset: int
) -> Term | None:
    if given is None:
        return None
    if given.ndim == 2:
        row = h if len(given) > 1 else 0
        return ToeplitzTerm(given[row], None if gradient is None else gradient[row], q_offset)
    return GivenTerm(of_head(given, b, h), None if gradient is None else of_head(gradient, b, h))


def _layout(pattern: Pattern, sizes: Sizes, last_first: bool, device: torch.device) -> Layout:
    if not pattern.lasting:
        return tiling(pattern, sizes, last_first).to(device)
    return _kept(pattern, sizes, last_first, device)


@lru_cache(maxsize=64)
def _kept(pattern: Pattern, sizes: Sizes, last_first: bool, device: torch.device) -> Layout:
    return tiling(pattern, sizes, last_first).to(device)
