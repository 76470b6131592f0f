"""All heads of a job, tile by tile. On a CPU they are shared out to threads of one core each."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from anyseq.base import share_out
from anyseq.ops.job import Gradients, Job, Returning, room_for
from anyseq.ops.tiles import kernel
from anyseq.ops.tiles.batches import Batch, batches
from anyseq.ops.tiles.terms import GivenTerm, Term, ToeplitzTerm

_TASKS = 16  # that a call is cut into, if it has as many heads

Piece = tuple[int, int, int]
"""A batch row and its heads from one number to before another."""


def forward(job: Job) -> tuple[Tensor, Tensor]:
    """out (B, H, N, E) and lse (B, H, N)."""
    out, lse = job.new_out()
    work = _Work(job)

    def one(piece: Piece) -> None:
        b, first, last = piece
        places = b, slice(first, last)
        kernel.forward(work.heads(piece), work.layout(first), out[places], lse[places])

    work.run(one, work.pieces())
    return out, lse


def backward(job: Job, returning: Returning) -> Gradients:
    """The gradients of q, k, v and, where wanted, of bias and gain."""
    found = Gradients(
        room_for(job.q).zero_(),
        room_for(job.k).zero_(),
        room_for(job.v).zero_(),
        torch.zeros_like(job.bias) if returning.wants_bias and job.bias is not None else None,
        torch.zeros_like(job.gain) if returning.wants_gain and job.gain is not None else None,
    )
    work = _Work(job)

    def one(piece: Piece) -> None:
        b, first, last = piece
        places, sides = (b, slice(first, last)), (b, work.sides(first, last))
        dout = returning.out_gradient[places]
        delta = (dout * returning.out[places]).sum(-1)
        if returning.lse_gradient is not None:
            delta -= returning.lse_gradient[places]
        into = kernel.Sums(found.q[places], found.k[sides], found.v[sides])
        heads = work.heads(piece, found.bias, found.gain)
        kernel.backward(heads, work.layout(first), returning.lse[places], dout, delta, into)

    learned = [term for term in (found.bias, found.gain) if term is not None]
    work.run(one, _apart(work.pieces(), learned))
    return found


def _apart(tasks: list[list[Piece]], learned: list[Tensor]) -> list[list[Piece]]:
    """Tasks of which no two add to the same numbers of a learned term."""
    if any(term.shape[0 if term.ndim == 2 else 1] == 1 for term in learned):
        return [[piece for task in tasks for piece in task]]
    if not learned:
        return tasks
    by_head: dict[int, list[Piece]] = {}
    for task in tasks:
        by_head.setdefault(task[0][1], []).extend(task)
    return list(by_head.values())


class _Work:
    """What the heads of a job work on, and over which tiles."""

    def __init__(self, job: Job) -> None:
        self.job, self.groups = job, job.q.shape[1] // job.k.shape[1]
        patterns = job.pattern.heads()
        self.layouts = [batches(one, job.sizes, job.q.device) for one in patterns]

    def layout(self, head: int) -> tuple[Batch, ...]:
        return self.layouts[head % len(self.layouts)]

    def sides(self, first: int, last: int) -> slice:
        """The heads of k and v that these heads share."""
        return slice(first // self.groups, -(-last // self.groups))

    def pieces(self) -> list[list[Piece]]:
        """All heads of all batch rows, in tasks of which no two add to the same k and v. Heads of
        one layout are worked on together."""
        batch, sides = self.job.k.shape[:2]
        alike = len(self.layouts) == 1
        step = min(sides, max(1, batch * sides // _TASKS)) if alike else 1
        tasks = []
        for b in range(batch):
            for side in range(0, sides, step):
                first, last = side * self.groups, min(side + step, sides) * self.groups
                each = 1 if not alike else last - first
                tasks.append([(b, head, head + each) for head in range(first, last, each)])
        return tasks

    def run(self, work: Callable[[Piece], None], tasks: list[list[Piece]]) -> None:
        """All pieces of all tasks."""

        def task(number: int) -> None:
            for piece in tasks[number]:
                work(piece)

        on_cpu = self.job.q.device.type == "cpu"
        share_out(task, len(tasks), torch.get_num_threads() if on_cpu else 1)

    def heads(
        self,
        piece: Piece,
        bias_gradient: Tensor | None = None,
        gain_gradient: Tensor | None = None,
    ) -> kernel.Heads:
        job, (b, first, last) = self.job, piece
        own, sides = slice(first, last), self.sides(first, last)
        documents = random = None
        if job.documents is not None:
            documents = (job.query_documents()[b], job.documents[b])
        if job.dropout_p:
            place = b * job.q.shape[1] + first
            random = torch.Generator(job.q.device).manual_seed((job.seed + place) % 2**62)
        return kernel.Heads(
            job.q[b, own],
            job.k[b, sides],
            job.v[b, sides],
            job.scale,
            job.softcap,
            _term(job.bias, bias_gradient, b, own, job.q_offset, job.places),
            _term(job.gain, gain_gradient, b, own, job.q_offset),
            None if job.mask is None else _of_heads(job.mask, b, own),
            None if job.key_mask is None else job.key_mask[b],
            documents,
            job.dropout_p,
            random,
        )


def _term(
    given: Tensor | None,
    gradient: Tensor | None,
    b: int,
    own: slice,
    q_offset: int,
    places: Tensor | None = None,
) -> Term | None:
    if given is None:
        return None
    if given.ndim == 2:
        rows = own if len(given) > 1 else slice(0, 1)
        own_gradient = None if gradient is None else gradient[rows]
        return ToeplitzTerm(given[rows], own_gradient, q_offset, places)
    own_gradient = None if gradient is None else _of_heads(gradient, b, own)
    return GivenTerm(_of_heads(given, b, own), own_gradient)


def _of_heads(given: Tensor, b: int, own: slice) -> Tensor:
    """(heads or 1, N or 1, M or 1) of a tensor with four axes, some of them shared."""
    return given[b if given.shape[0] > 1 else 0][own if given.shape[1] > 1 else slice(0, 1)]
