"""The layers of a model that is run: which tokens each attends to, forward and backward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from anyseq.base import generator
from anyseq.models.borrowing import with_borrowing
from anyseq.models.calls import Call, first_sequence, record
from anyseq.models.dependence import Step, steps
from anyseq.models.faults.subject import Subject, differences
from anyseq.models.scores import Told, told_by_scores

Array = np.ndarray[Any, Any]

_ROWS = (16, 17)  # of a batch: one of them is not the number of tokens
_ROUNDED = 1e-9  # of float64, relative to the largest number


@dataclass(frozen=True, eq=False)
class Seen:
    """A layer as it was seen. sees, felt: (tokens, tokens) [i, j] whether the gradient of output i
    by token j is not 0, and how much output i changes with token j; felt is None if the layer could
    not be run again. told: how it uses positions. outputs: (tokens,) bool, those checked."""

    name: str
    call: Call
    attends: bool
    sees: Array
    felt: Array | None
    told: Told
    outputs: Array | None = None


def seen_layers(subject: Subject, positions: bool = False) -> list[Seen]:
    """The modules that move content between tokens, in order, inside the audited stack."""
    rows = next(count for count in _ROWS if count != subject.tokens)
    x = subject.draw().expand(rows, *[-1] * (1 if subject.features is None else 2)).clone()
    if subject.features is not None:
        x.requires_grad_()

    def run() -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            subject.forward(subject.arguments(x))

    root = record(subject.module, run)
    found = [
        step
        for step in with_borrowing(steps(root, rows), root)
        if step.sees is not None and len(step.sees) == subject.tokens and _inside(subject, step)
    ]
    names = {module: name for name, module in subject.module.named_modules()}
    prefix = prefix_of(subject)
    steady = subject.steady and subject.batched  # otherwise changes have other causes
    return [
        Seen(
            prefix + names[step.call.module],
            step.call,
            any(call.scores for call in step.call.walk()),
            step.sees if subject.batched else _by_one_row(step.call),
            effects(step.call, rounding(subject)) if steady and not step.borrows else None,
            told_by_scores(step.call, rows) if positions else Told("unseen"),
        )
        for step in found
        if step.sees is not None
    ]


def _by_one_row(call: Call) -> Array:
    """Whether the gradient of output i of the first row by its token j is not 0: for calls whose
    rows influence each other, which are otherwise used to check several outputs at once."""
    assert call.x is not None
    assert call.out is not None
    tokens = call.shape[1]
    weights = torch.randn(call.out.shape[2], generator=generator(0), dtype=torch.float64)
    sees: Array = np.zeros((tokens, tokens), dtype=bool)
    for token, value in enumerate((call.out[0] * weights.to(call.out)).sum(-1)):
        (gradient,) = torch.autograd.grad(value, call.x, retain_graph=True, allow_unused=True)
        sees[token] = False if gradient is None else (gradient[0] != 0).any(-1).cpu().numpy()
    return sees


def _inside(subject: Subject, step: Step) -> bool:
    if subject.stack is subject.module:
        return True
    return any(call.module is subject.stack for call in (*step.within, step.call))


def prefix_of(subject: Subject) -> str:
    """The prefix of the names of the module's parts in the audited model."""
    return {"model.get_encoder()": "encoder.", "model.base_model": "base_model."}.get(
        subject.text, ""
    )


def rounding(subject: Subject) -> float:
    """Effects on a layer's outputs up to this, relative to the largest, are rounding."""
    return _ROUNDED if subject.dtype == torch.float64 else subject.tolerance


def effects(call: Call, rounded: float, size: float = 1.0) -> Array | None:
    """How much each output of a call changes with each token of its input, run forward. size: of
    the change, relative to what the token holds."""
    if call.x is None or call.out is None or call.shape[0] not in _ROWS:
        return None
    rows, tokens = call.shape[:2]
    found = np.zeros((tokens, tokens))
    noise = torch.randn(call.shape, generator=generator(6), dtype=torch.float64).to(call.x)
    with torch.no_grad():
        for start in range(0, tokens, rows):
            x = call.x.detach().clone()
            for row, token in enumerate(range(start, min(start + rows, tokens))):
                x[row, token] += size * noise[row, token] * x.std()
            try:
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(0)
                    out = first_sequence(call.again(x))
            except Exception:  # a call that cannot be made twice shows nothing
                return None
            if out is None:
                return None
            effect = differences(call.out.detach(), out, rounded).cpu()
            for row, token in enumerate(range(start, min(start + rows, tokens))):
                found[:, token] = effect[row]
    return found


def largest(chosen: Array, seen: Seen) -> tuple[int, int]:
    """The chosen pair with the largest effect."""
    effect = np.where(chosen, 1e-300 if seen.felt is None else seen.felt + 1e-300, 0.0)
    i, j = (int(one) for one in np.unravel_index(effect.argmax(), effect.shape))
    return i, j


def share(seen: Seen, pair: tuple[int, int]) -> float:
    """How much output i changes with token j; by gradients where that was not felt."""
    felt = 0.0 if seen.felt is None else float(seen.felt[pair])
    return felt or gradient_share(seen, pair)


def gradient_share(seen: Seen, pair: tuple[int, int]) -> float:
    """The gradient of output i by token j, relative to the largest by any token."""
    call, (i, j) = seen.call, pair
    if call.x is None or call.out is None:
        return 0.0
    weights = torch.randn(call.out.shape[2], generator=generator(0), dtype=torch.float64)
    value = (call.out[0, i] * weights.to(call.out)).sum()
    (gradient,) = torch.autograd.grad(value, call.x, retain_graph=True, allow_unused=True)
    if gradient is None:
        return 0.0
    sizes = gradient[0].abs().amax(-1)
    return float(sizes[j] / sizes.max()) if float(sizes.max()) > 0 else 0.0
