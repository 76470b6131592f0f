"""How attention depends on positions, by its scores on identical tokens.

On identical tokens content is the same everywhere: scores that still differ depend on position. A
common term of a whole row is lost in softmax, so scores are compared with that of the token itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from anyseq.base import generator
from anyseq.models.calls import Call, adds_residual, first_sequence, scores_within

_CLOSE = 1e-4  # angles are computed in float32, whatever the rest is in
_LOWEST = -1e30  # for what masks make of scores, infinities too
_FELT = 0.1  # scores that differ by so much give other weights
_HIDDEN = 1e3  # a score that is lower by more gets no weight


@dataclass(frozen=True)
class Told:
    """What the scores of a call show.

    kind: "none", "linear" in the distance, "offset" for a number per offset whatever the content,
        "content" for one that depends on the content too, "absolute" for what is not a function of
        i - j, "buckets" if it is known to be T5's, "unseen" if there were no scores of tokens
        against tokens.
    groups: with "offset", offsets that share a number: one entry for each of -(tokens - 1), ...,
        tokens - 1, -1 where no token attends so far.
    sinks: whether a score of no token takes part. sums_to_one: whether the weights of every row
        seem to, since then what attention gives is the same for all of identical tokens.
    """

    kind: str
    groups: tuple[int, ...] = ()
    sinks: bool = False
    sums_to_one: bool = True


def told_by_scores(call: Call, rows: int) -> Told:
    """What a call's scores show on identical tokens; other ones in every row of the batch."""
    assert call.x is not None
    first = call.shape[0] == rows
    tokens, features = call.shape[first], call.shape[2]
    content = torch.randn(rows, 1, features, generator=generator(2), dtype=torch.float64)
    x = content.to(call.x).expand(-1, tokens, -1)
    try:
        scored, out = scores_within(call, (x if first else x.transpose(0, 1)).contiguous())
    except Exception:  # a call that cannot be made twice shows nothing
        return Told("unseen")
    found = [
        scores
        for one in scored
        if (scores := _by_head(one, rows)) is not None
        and scores.shape[2] == tokens
        and scores.shape[3] in (tokens, tokens + 1)
    ]
    if not found:
        return Told("unseen")
    kinds = [_told(scores) for scores in found]
    # several softmaxes, as differential attention has them, differ in nothing but their weights
    told = max(kinds, key=lambda one: _ORDER.index(one.kind))
    if out is None:
        return told
    sequences = out if first else out.transpose(0, 1)
    return replace(told, sums_to_one=_equal_rows(sequences, adds_residual(call)))


def _equal_rows(out: torch.Tensor, residual: bool) -> bool:
    """Whether sequences (rows, tokens, features) are the same at every token. residual: up to what
    is the same in all rows, where a call adds a residual passed beside x."""
    changes = out - out[:1] if residual else out
    return bool((changes - changes[:, :1]).abs().max() <= _CLOSE * out.abs().max())


_ORDER = ("none", "linear", "offset", "content", "absolute", "unseen")


def _by_head(scores: torch.Tensor, batch: int) -> torch.Tensor | None:
    """(batch, heads, queries, keys), however heads were laid out."""
    if scores.ndim < 3 or scores.shape[0] % batch:
        return None
    return scores.reshape(batch, -1, *scores.shape[-2:]).double()


def _told(scores: torch.Tensor) -> Told:
    tokens = scores.shape[2]
    sinks = scores.shape[3] > tokens
    scores = scores[..., :tokens].clamp(min=_LOWEST)
    own = scores.diagonal(dim1=2, dim2=3)[..., None]
    if not (own > scores.amax(3, keepdim=True) - _HIDDEN).all():
        return Told("unseen", sinks=sinks)
    by_head = (scores > own - _HIDDEN)[0]  # (heads, queries, keys)
    seen = by_head.any(0)
    if not by_head.all(0).equal(seen):
        return Told("unseen", sinks=sinks)  # heads with masks of their own
    relative = torch.where(seen, scores - own, 0.0)
    close = _CLOSE * (1 + float(own.abs().max()))
    if float(relative.abs().max()) <= close:
        return Told("none" if close < _FELT else "unseen", sinks=sinks)
    index = torch.arange(tokens)
    offset = (index[:, None] - index) + tokens - 1  # from 0 on
    low, high = (_by_offset(relative, seen, offset, how) for how in ("amin", "amax"))
    met = _by_offset(seen.double()[None, None], seen, offset, "amax")[0, 0] > 0
    if float((high - low)[..., met].max()) > close:
        return Told("absolute", sinks=sinks)
    if float((low - low[:1]).abs().max()) > close:
        return Told("content", sinks=sinks)
    curve = low[0]  # (heads, offsets)
    distance = (torch.arange(2 * tokens - 1) - (tokens - 1)).abs()
    slope = curve[:, tokens]  # of offset 1
    straight = (curve - slope[:, None] * distance)[:, met]
    if float(straight.abs().max()) <= close and bool((slope.abs() > 0).any()):
        return Told("linear", sinks=sinks)
    return Told("offset", _groups(curve, met, close), sinks)


def _by_offset(
    values: torch.Tensor, seen: torch.Tensor, offset: torch.Tensor, how: str
) -> torch.Tensor:
    """(batch, heads, offsets): the least or the largest value of the pairs seen at each offset."""
    batch, heads, tokens = values.shape[:3]
    flat = values[..., seen]
    found = values.new_zeros(batch, heads, 2 * tokens - 1)
    where = offset[seen].expand(batch, heads, -1)
    return found.scatter_reduce(2, where, flat, how, include_self=False)


def _groups(curve: torch.Tensor, met: torch.Tensor, close: float) -> tuple[int, ...]:
    """The first offset with the same numbers in all heads."""
    groups = []
    for one in range(curve.shape[1]):
        if not met[one]:
            groups.append(-1)
            continue
        same = ((curve - curve[:, one : one + 1]).abs() <= close).all(0) & met
        groups.append(int(same.nonzero()[0]))
    return tuple(groups)


def told_by_gradients(call: Call, rows: int, tokens: int) -> Told:
    """The same of the first tokens, where scores are not those of all against all: without
    positions every visible key of a row weighs the same, and so does the gradient by it on
    identical tokens."""
    assert call.x is not None
    if call.shape[0] != rows:
        return Told("unseen")
    content = torch.randn(call.shape[2], generator=generator(2), dtype=torch.float64).to(call.x)
    x = content.expand(call.shape).clone().requires_grad_()
    out = first_sequence(call.again(x))
    assert out is not None
    weights = torch.randn(out.shape[2], generator=generator(3), dtype=torch.float64).to(out)
    for token in range(tokens):
        value = (out[0, token] * weights).sum()
        row = torch.autograd.grad(value, x, retain_graph=True)[0][0]
        others = torch.cat([row[:token], row[token + 1 :]])  # the token itself is also the query
        seen = others[others.abs().amax(1) > 0]
        if len(seen) and float((seen - seen[0]).abs().max()) > _CLOSE * float(row.abs().max()):
            return Told("unseen")
    same = _equal_rows(out[:1, :tokens].detach(), False)
    return Told("none", sums_to_one=same or adds_residual(call))


def commutes(call: Call, rows: int) -> bool:
    """Whether a call commutes with a permutation of the tokens."""
    assert call.x is not None
    if call.shape[0] != rows:
        return True  # not seen
    order = torch.randperm(call.shape[1], generator=generator(4))
    x = torch.randn(call.shape, generator=generator(5), dtype=torch.float64).to(call.x)
    with torch.no_grad():
        plain, moved = (first_sequence(call.again(one)) for one in (x, x[:, order].contiguous()))
    if plain is None or moved is None:
        return True
    return bool((plain[:, order] - moved).abs().max() <= _CLOSE * plain.abs().max())


def same_inside(call: Call, rows: int, radius: int) -> bool:
    """Whether a call gives the same for all of identical tokens that are not near an end."""
    assert call.x is not None
    if call.shape[0] != rows:
        return False
    content = torch.randn(call.shape[2], generator=generator(2), dtype=torch.float64).to(call.x)
    with torch.no_grad():
        out = first_sequence(call.again(content.expand(call.shape).clone()))
    if out is None or out.shape[1] <= 2 * radius:
        return False
    inside = out[:, radius : out.shape[1] - radius]
    return bool((inside - inside[:, :1]).abs().max() <= _CLOSE * out.abs().max())
