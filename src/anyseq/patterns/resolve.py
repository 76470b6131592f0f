"""What the operator accepts as a pattern, turned into a mask_mod."""

from __future__ import annotations

from typing import Any

import torch

from anyseq.errors import InvalidArgument
from anyseq.patterns.blocks import MaskMod
from anyseq.patterns.pattern import Pattern, PatternLike


def named(pattern: PatternLike) -> PatternLike:
    """The Pattern that a text such as "window(64) | global(0)" stands for; anything else as it is.
    Texts are remembered: one that was read before costs a table look-up."""
    if not isinstance(pattern, str):
        return pattern
    from anyseq.patterns.expression import parse_pattern  # which knows all patterns, and they this

    return parse_pattern(pattern)


def resolve(pattern: PatternLike, n: int) -> MaskMod:
    """The mask_mod of anything that says which tokens each token attends to, for n tokens.

    A bool tensor has shape (N, M), (H, N, M) or (B, H, N, M); axes of size 1 broadcast.
    """
    pattern = named(pattern)
    if isinstance(pattern, Pattern):
        return pattern.at(n)
    if isinstance(pattern, torch.Tensor):
        return _from_tensor(pattern)
    # A BlockMask is recognised by an attribute, so that FlexAttention need not be imported.
    if hasattr(pattern, "mask_mod") and hasattr(pattern, "kv_indices"):
        return _from_block_mask(pattern)
    if isinstance(pattern, type):
        raise InvalidArgument(
            f"pattern={pattern.__name__}: a class; did you mean {pattern.__name__}()?"
        )
    if not callable(pattern):
        raise InvalidArgument(
            f"pattern={pattern!r}: expected a Pattern, its text, a mask_mod(b, h, i, j), a "
            "bool tensor or a BlockMask"
        )
    return pattern  # type: ignore[no-any-return]  # a user's callable: its signature is a promise


def evaluated(
    mask_mod: MaskMod, b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
) -> torch.Tensor:
    """The result of a user's mask_mod, or an error that says what is wrong with it."""
    try:
        mask = mask_mod(b, h, i, j)
    except Exception as problem:  # somebody's function may raise anything
        raise InvalidArgument(
            f"pattern: the mask_mod fails on index tensors b, h, i, j for {i.numel()} queries "
            f"and {j.numel()} keys: {type(problem).__name__}: {' '.join(str(problem).split())}"
        ) from problem
    if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool:
        what = mask.dtype if isinstance(mask, torch.Tensor) else f"a Python {type(mask).__name__}"
        raise InvalidArgument(f"pattern: a mask_mod that returns {what}, expected bool tensors")
    if not torch.compiler.is_compiling():
        full = torch.broadcast_shapes(b.shape, h.shape, i.shape, j.shape)
        ends = zip(reversed(mask.shape), reversed(full), strict=False)
        if mask.ndim > len(full) or any(size not in (1, whole) for size, whole in ends):
            raise InvalidArgument(
                f"pattern: a mask_mod that returns shape {tuple(mask.shape)} for index tensors "
                f"that broadcast to {tuple(full)}"
            )
    return mask


def differs_by_row_or_head(mask_mod: MaskMod) -> bool:
    """Whether a mask_mod depends on b or h. If it does, its result has their shape; or it fails
    here, as it will when it is used."""
    rows, heads = torch.zeros(2, 1, 1, 1).long(), torch.zeros(1, 2, 1, 1).long()
    place = torch.zeros(1, 1).long()
    try:
        shape = tuple(mask_mod(rows, heads, place, place).shape)
    except Exception:  # somebody's function may raise anything
        return True
    return len(shape) == 4 and shape[:2] != (1, 1)


def _from_tensor(mask: torch.Tensor) -> MaskMod:
    if mask.dtype != torch.bool or not 2 <= mask.ndim <= 4:
        raise InvalidArgument(
            f"pattern: a tensor of dtype {mask.dtype} and shape {tuple(mask.shape)}; expected "
            "bool of shape (N, M), (H, N, M) or (B, H, N, M), True = may attend; numbers that are "
            "added to the scores are a bias"
        )
    full = mask.reshape((1,) * (4 - mask.ndim) + tuple(mask.shape))
    # A shared axis leaves no trace in the shape of the answer. It is taken out, not looked up at 0:
    # FlexAttention before torch 2.9 looks up by tensors only.
    by_row, by_head = full.shape[0] != 1, full.shape[1] != 1
    table = full.squeeze((0, 1))

    def mask_mod(
        b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
    ) -> torch.Tensor:
        row, head = (b,) if by_row else (), (h,) if by_head else ()
        return table.to(i.device)[(*row, *head, i, j)]

    return mask_mod


def _from_block_mask(block_mask: Any) -> MaskMod:
    """i attends to j in a full block; in a partial one, where the mask_mod allows it; in no
    other."""
    rows, columns = block_mask.BLOCK_SIZE
    partial = _listed(block_mask.kv_num_blocks, block_mask.kv_indices)
    full = torch.zeros_like(partial)
    if block_mask.full_kv_num_blocks is not None:
        full = _listed(block_mask.full_kv_num_blocks, block_mask.full_kv_indices)
    some, every = _from_tensor(partial), _from_tensor(full)

    def mask_mod(
        b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
    ) -> torch.Tensor:
        block = (b, h, i // rows, j // columns)
        allowed: torch.Tensor = every(*block) | (some(*block) & block_mask.mask_mod(b, h, i, j))
        return allowed

    return mask_mod


def _listed(count: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """(B, H, rows, columns) bool: the blocks that a list names; the first `count` of it count."""
    named = torch.arange(index.shape[-1], device=index.device) < count[..., None]
    blocks = torch.zeros(index.shape, dtype=torch.bool, device=index.device)
    return blocks.scatter(-1, index.long(), named)
