"""Gradients that can be differentiated again: those of the formula itself."""

from __future__ import annotations

import torch
from torch import Tensor

from anyseq.errors import InvalidArgument
from anyseq.ops import reference
from anyseq.ops.call import Call, Term
from anyseq.ops.tiles.keys import combined
from anyseq.positions import Toeplitz
from anyseq.probability import Softmax


def differentiable_gradients(
    out_gradient: Tensor,
    lse_gradient: Tensor | None,
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
    """What `tiles_backward` gives, with a graph behind it; dense."""
    if seed is not None:
        raise InvalidArgument(
            "dropout_p: with dropout, gradients of gradients need backend='reference'"
        )
    q, k, v = (_in_a_graph(side) for side in (q, k, v))
    bias, gain = (None if term is None else _in_a_graph(term) for term in (bias, gain))
    call = Call(
        q, k, v,
        pattern=combined(pattern, is_causal),
        mask=mask,
        mask_mod=None,
        key_mask=key_mask,
        bias=_term(bias),
        gain=_term(gain),
        score_mod=None,
        weight_mod=None,
        prob_map=Softmax(),
        scale=scale,
        is_causal=False,
        dropout_p=0.0,
        q_offset=q_offset,
        return_lse=lse_gradient is not None,
    )  # fmt: skip
    wanted = [q, k, v]
    wanted += [bias] if wants_bias and bias is not None else []
    wanted += [gain] if wants_gain and gain is not None else []
    out, lse = reference.attention(call)
    outputs, gradients = [out], [out_gradient]
    if lse is not None and lse_gradient is not None:
        # A row that sees nothing has lse = -inf, whatever the inputs.
        outputs.append(lse.masked_fill(lse == -torch.inf, 0.0))
        gradients.append(lse_gradient)
    return list(torch.autograd.grad(outputs, wanted, gradients, create_graph=True))


def _in_a_graph(given: Tensor) -> Tensor:
    """The tensor itself, or a copy that autograd follows if it does not follow the tensor."""
    return given if given.requires_grad else given.detach().requires_grad_()


def _term(given: Tensor | None) -> Term | None:
    return Toeplitz(given) if given is not None and given.ndim == 2 else given
