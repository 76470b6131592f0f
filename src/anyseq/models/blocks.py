"""The rest of a block around its mixing half: where its norms are, and its feed-forward half."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from anyseq.base import generator
from anyseq.models.calls import Call, adds_residual
from anyseq.models.dependence import Step


def is_norm(call: Call) -> bool:
    """Whether the call is that of a norm, by the name of its class."""
    return "norm" in type(call.module).__name__.lower()


def norm_place(step: Step, mixing: Sequence[Step]) -> str | None:
    """Where the block around a step has its norms: "pre" before its halves, "post" at their ends,
    past the residual, "sandwich" also, or only, at the end of what a half adds. None: nowhere.
    mixing: all steps that mix."""
    around = (step.call,) if is_whole_block(step.call) else reversed(step.within)
    for block in around:
        norms = [call for call in _beside(block, step.call) if is_norm(call)]
        if not norms:
            continue
        if sum(block in one.within or one.call is block for one in mixing) > 1:
            return _place_among(step, norms)
        if _ends_with_norm(block):
            return "post"
        given = any(norm.x is block.x for norm in norms)
        ended = any(norm.x is step.call.out for norm in norms) and not adds_residual(step.call)
        return "pre" if given and not ended else "sandwich"
    return None


def _place_among(step: Step, norms: Sequence[Call]) -> str | None:
    """The same for a model that calls the parts of its blocks itself: whether the input of a norm
    that feeds the step also reaches the next norm past the step. A norm loses the length of a
    vector; a residual keeps it."""
    before = next((norm for norm in norms if norm.handed_on is step.call.x), None)
    later = norms[norms.index(before) + 1 :] if before is not None else []
    if before is None or not later or before.x is None or later[0].x is None:
        return None
    x, token = before.x, before.x.shape[1] - 1
    weights = torch.randn(x.shape[2], generator=generator(0), dtype=torch.float64).to(x)
    value = (later[0].x[0, token] * weights).sum()
    (gradient,) = torch.autograd.grad(value, x, retain_graph=True, allow_unused=True)
    if gradient is None:
        return None
    own = x[0, token].detach()
    carried, whole = float(gradient[0, token] @ own), float(weights @ own)
    return "pre" if abs(carried) > abs(whole) / 2 else "post"


def holds_feedforward(calls: Sequence[Call]) -> bool:
    """Whether calls outside of what mixes hold a feed-forward half: two matrices at least, since
    one may be the last of attention's own."""
    return _matrices(calls) > 1


def _matrices(calls: Sequence[Call]) -> int:
    weights = (weight for call in calls for weight in call.module.parameters(recurse=False))
    return sum(weight.numel() > max(weight.shape, default=0) for weight in weights)


def is_whole_block(call: Call) -> bool:
    """Whether a call whose own code attends is a block with its feed-forward half: the last matrix
    of attention is followed by two more."""
    after = [one for part in call.parts[call.scored_before :] for one in part.walk()]
    return bool(call.scores) and _matrices(after) > 2


def final_norm(steps: Sequence[Step]) -> str | None:
    """The norm after the last block: "learned-layernorm" or "learned-rmsnorm", or the same without
    parameters; None if there is none."""
    mixing = [step for step in steps if step.sees is not None]
    if norm_place(mixing[-1], mixing) == "post":
        return None
    for step in reversed(steps):
        if step.sees is not None:
            return None
        outside = all(step.within[-1] in _around(one) for one in mixing)
        if outside and is_norm(step.call):
            kind = "layernorm" if _centres(step.call) else "rmsnorm"
            return f"learned-{kind}" if [*step.call.module.parameters()] else kind
    return None


def _around(step: Step) -> tuple[Call, ...]:
    """The calls around the block of a step."""
    return step.within if is_whole_block(step.call) else step.within[:-1]


def _centres(norm: Call) -> bool:
    """Whether a norm takes the mean away first: then a number added to all features is lost."""
    assert norm.x is not None
    x = norm.x.detach()
    with torch.no_grad():
        before, after = norm.again(x), norm.again(x + 1)
    return bool(torch.allclose(before, after, rtol=1e-4, atol=1e-4))


def _beside(block: Call, inner: Call) -> Iterator[Call]:
    """The calls within a block that are not within one of them."""
    for part in block.parts:
        if part is not inner:
            yield part
            yield from _beside(part, inner)


def _ends_with_norm(block: Call) -> bool:
    """Whether a norm gives the block's output, directly or through calls that hand it on."""
    inner = [call for part in block.parts for call in part.walk() if call.handed_on is not None]
    made = {id(call.handed_on): call for call in reversed(inner)}
    out = block.out
    while id(out) in made:
        call = made.pop(id(out))
        if is_norm(call):
            return True
        out = call.out if call.out is not call.handed_on else None
    return False
