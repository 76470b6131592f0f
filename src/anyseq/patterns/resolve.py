"""What the operator accepts as a pattern, turned into a mask_mod."""

from __future__ import annotations

import torch

from anyseq.errors import InvalidArgument
from anyseq.patterns.blocks import MaskMod
from anyseq.patterns.pattern import Pattern, PatternLike


def resolve(pattern: PatternLike, n: int) -> MaskMod:
    """The mask_mod of anything that says who may look at whom, for n tokens.

    A bool tensor has shape (N, M), (H, N, M) or (B, H, N, M); axes of size 1 broadcast.
    """
    if isinstance(pattern, Pattern):
        return pattern.at(n)
    if isinstance(pattern, torch.Tensor):
        return _from_tensor(pattern)
    # A BlockMask carries the function it was made from; it is recognised by that attribute, so
    # that FlexAttention need not be imported.
    mask_mod = getattr(pattern, "mask_mod", pattern)
    if isinstance(pattern, type):
        raise InvalidArgument(
            f"pattern={pattern.__name__}: a class; did you mean {pattern.__name__}()?"
        )
    if not callable(mask_mod):
        raise InvalidArgument(
            f"pattern={pattern!r}: expected a Pattern, a mask_mod(b, h, i, j), a bool tensor "
            "or a BlockMask"
        )
    return mask_mod  # type: ignore[no-any-return]  # a user's callable: its signature is a promise


def _from_tensor(mask: torch.Tensor) -> MaskMod:
    if mask.dtype != torch.bool or not 2 <= mask.ndim <= 4:
        raise InvalidArgument(
            f"pattern: a tensor of dtype {mask.dtype} and shape {tuple(mask.shape)}; expected "
            "bool of shape (N, M), (H, N, M) or (B, H, N, M), True = may attend"
        )
    full = mask.reshape((1,) * (4 - mask.ndim) + tuple(mask.shape))

    def mask_mod(
        b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
    ) -> torch.Tensor:
        batch = b if full.shape[0] > 1 else torch.zeros_like(b)
        head = h if full.shape[1] > 1 else torch.zeros_like(h)
        return full[batch, head, i, j]

    return mask_mod
