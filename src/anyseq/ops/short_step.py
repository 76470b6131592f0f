"""The arithmetic of short attention: forward and backward, in memory that is used again.

With S = q k^T·scale + bias (-inf where masked), P = softmax(S) and A = P ∘ gain:

    out = A v,   dv = A^T dout,   dA = dout v^T,   dgain = dA ∘ P,
    dS = P ∘ (dA ∘ gain - Σ_j dA ∘ gain ∘ P),   dbias = dS,   dq = dS k·scale,   dk = dS^T q·scale.

Separate operators ask the system for fresh memory for each of these, which takes longer than some
of them compute. Here P is kept for the backward pass; what is not given away is written over what
the last call left in this thread's `Room`. Softmax and its gradient could write where they read,
but take up to twice as long there: where rows do not fill whole registers, what was just written of
one row is read again with the next.
"""

from __future__ import annotations

from math import isnan
from typing import NamedTuple

import torch
from torch import Tensor

from anyseq.ops.room import Room, room
from anyseq.probability import Softmax


class Sides(NamedTuple):
    """q (B, H, N, D), k (B, H, M, D), v (B, H, M, E), or their gradients."""

    q: Tensor
    k: Tensor
    v: Tensor

    @property
    def room(self) -> Room:
        """This thread's."""
        sizes = *self.q.shape[:3], self.k.shape[2], self.v.shape[3]
        return room(Room, sizes, self.q.dtype)

    def flat(self) -> Sides:
        """With one axis for batch and heads; views, if they are contiguous."""
        return Sides(*(side.flatten(0, 1) for side in self))


class Terms(NamedTuple):
    """What acts on scores and weights, all broadcast to (B, H, N, M): penalties are added to
    scores, as the bias is, and have no gradient; the gain multiplies weights. empty: True for the
    rows that see nothing, with one column; None if there are none."""

    penalties: list[Tensor]
    empty: Tensor | None
    bias: Tensor | None
    gain: Tensor | None

    @property
    def added(self) -> list[Tensor]:
        """To scores."""
        return self.penalties if self.bias is None else [self.bias, *self.penalties]


def mix(own: Room, sides: Sides, terms: Terms, scale: float, *, keep: bool) -> Tensor:
    """Leaves `out` in the room and returns P, in memory of its own if it is to be kept. The sides
    are flat."""
    q, k, v = sides
    weights = torch.empty_like(own.mixing) if keep else own.mixing
    added = terms.added
    for at, term in enumerate(added):
        own.change.add_(term) if at else own.change.copy_(term)
    _product(q, k.mT, scale, own.change_flat, added=bool(added))
    torch.softmax(own.change, -1, out=weights)
    if own.keys and isnan(weights.select(-1, 0).sum().item()):
        # perhaps from a row that sees nothing: its weights are to be 0
        weights.masked_fill_(own.change.amax(-1, keepdim=True) == -torch.inf, 0.0)
    if terms.gain is None:
        torch.bmm(weights.view(own.flat), v, out=own.out)
    else:
        torch.mul(weights, terms.gain, out=own.mixing)
        torch.bmm(own.mixing_flat, v, out=own.out)
    if terms.empty is not None:
        own.out_by_head.masked_fill_(terms.empty, 0.0)
    return weights


def unmix(
    own: Room,
    sides: Sides,
    dsides: Sides,
    terms: Terms,
    scale: float,
    weights: Tensor,
    *,
    learns_bias: bool,
    learns_gain: bool,
) -> tuple[Tensor | None, Tensor | None]:
    """From dout in the room: fills dsides, and returns the gradients of a bias and a gain, if they
    are learned. The sides are flat."""
    (q, k, v), (dq, dk, dv) = sides, dsides
    bias, gain, dbias, dgain = terms.bias, terms.gain, None, None
    if terms.empty is not None:
        own.out_by_head.masked_fill_(terms.empty, 0.0)
    torch.bmm(own.out, v.mT, out=own.change_flat)
    mixing = weights.view(own.flat)
    if gain is not None:
        if learns_gain:
            products = torch.mul(own.change, weights, out=_room_for(gain, own))
            dgain = products.sum_to_size(gain.shape)
        own.change.mul_(gain)
        torch.mul(weights, gain, out=own.mixing)
        mixing = own.mixing_flat
    torch.bmm(mixing.mT, own.out, out=dv)
    dscores = _room_for(bias, own) if bias is not None and learns_bias else own.mixing
    torch._softmax_backward_data(own.change, weights, -1, weights.dtype, grad_input=dscores)
    if bias is not None and learns_bias:
        dbias = dscores.sum_to_size(bias.shape)
    flat = dscores.view(own.flat)
    _product(flat, k, scale, dq)
    _product(flat.mT, q, scale, dk)
    return dbias, dgain


class Written(NamedTuple):
    """out (B, H, N, E), and what `unmix` gives, whether it is learned or not."""

    out: Tensor
    dsides: Sides
    dbias: Tensor | None
    dgain: Tensor | None


def written_out(sides: Sides, dout: Tensor, terms: Terms, scale: float) -> Written:
    """The formulas above, from the inputs alone, by operators that torch can differentiate."""

    def hide(rows: Tensor) -> Tensor:
        return rows if terms.empty is None else rows.masked_fill(terms.empty, 0.0)

    q, k, v = sides
    bias, gain, dout = terms.bias, terms.gain, hide(dout)
    scores = (q * scale) @ k.mT
    for term in terms.added:
        scores = scores + term
    weights = Softmax()(scores)
    mixing = weights if gain is None else weights * gain
    dmixing = dout @ v.mT
    dweights = dmixing if gain is None else dmixing * gain
    dscores = weights * (dweights - (dweights * weights).sum(-1, keepdim=True))
    return Written(
        hide(mixing @ v),
        Sides(dscores @ k * scale, dscores.mT @ q * scale, mixing.mT @ dout),
        None if bias is None else dscores.sum_to_size(bias.shape),
        None if gain is None else (dmixing * weights).sum_to_size(gain.shape),
    )


def _product(left: Tensor, right: Tensor, scale: float, into: Tensor, added: bool = False) -> None:
    """into = left right·scale, plus what is there if `added`."""
    # with beta = 0 what was there counts for nothing, not even NaN
    torch.baddbmm(into, left, right, beta=int(added), alpha=scale, out=into)


def _room_for(term: Tensor, own: Room) -> Tensor:
    """Where to put the gradient of a bias or gain, (B, H, N, M), before it is summed: in memory of
    its own if it is of that shape already, since then it is given away."""
    return torch.empty_like(own.mixing) if term.shape == own.mixing.shape else own.mixing
