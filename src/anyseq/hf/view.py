"""What the queries of one call may see: the model's mask and the pattern, together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_

import torch

from anyseq.errors import InvalidArgument
from anyseq.hf.mask import AttentionMask
from anyseq.nn import keeps_its_past
from anyseq.patterns import MaskMod, Pattern, PatternLike, resolve


@dataclass(frozen=True)
class View:
    """Arguments of `anyseq.attention`, for the first `keys` keys; causal=None: it is not known."""

    keys: int
    pattern: PatternLike = None
    key_mask: torch.Tensor | None = None
    bias: torch.Tensor | None = None
    causal: bool | None = None
    q_offset: int = 0


def view(
    mask: torch.Tensor | None,
    pattern: Pattern | None,
    rows: int,
    columns: int,
) -> View:
    """`pattern` acts on positions, which a mask of our own knows and a 4D mask of the caller does
    not, unless there are as many queries as keys."""
    if isinstance(mask, AttentionMask):
        return _own(mask, pattern, rows, columns)
    if mask is None:
        return View(columns, pattern)
    return _given(mask, pattern, rows, columns)


def _own(mask: AttentionMask, pattern: Pattern | None, rows: int, columns: int) -> View:
    if tuple(mask.shape[2:]) != (rows, columns):
        raise InvalidArgument(
            f"attention_mask for {tuple(mask.shape[2:])} queries and keys, but attention got "
            f"({rows}, {columns}); the model changes its keys after it made the mask"
        )
    if pattern is not None and mask.q_offset > 0 and not _can_grow(pattern, mask.causal):
        raise InvalidArgument(
            f"pattern {pattern}: its rows change as the sequence grows, so keys and values in a "
            "cache would be out of date; call the model or generate with use_cache=False"
        )
    first = mask.q_offset - mask.kv_offset
    # Slots of a static cache that are still empty lie after the last query.
    keys = min(columns, first + rows) if mask.causal else columns
    span = mask.kv_offset + max(keys, first + rows)
    others = mask.mask_mod
    if pattern is not None and mask.extent is not None and not _same_anywhere(pattern, mask.extent):
        aligned = _from_first_token(pattern, mask.extent, span)
        pattern, others = None, aligned if others is None else _both(aligned, others)
    both = pattern if mask.pattern is None else mask.pattern
    if pattern is not None and mask.pattern is not None:
        both = pattern & mask.pattern
    return View(
        keys,
        _from_position(both, others, mask.kv_offset, span),
        None if mask.key_mask is None else mask.key_mask[:, :keys],
        None,
        mask.causal,
        first,
    )


def _same_anywhere(pattern: Pattern, extent: torch.Tensor) -> bool:
    """Whether it looks at i - j only, in the same way for all lengths up to that of the batch: then
    it does not matter where a sequence begins or ends."""
    longest = int(extent.max())
    lengths = set((extent[:, 1] - extent[:, 0]).tolist())
    for head in pattern.heads():
        whole = head.offsets(longest)
        parts = [head.offsets(length) for length in lengths]
        if whole is None or any(
            part is None or not part.equal(whole[longest - n : longest + n - 1])
            for n, part in zip(lengths, parts, strict=True)
        ):
            return False
    return True


def _from_first_token(pattern: Pattern, extent: torch.Tensor, span: int) -> MaskMod:
    """The pattern of each batch row, for as many tokens as are real there, counted from the first
    of these. What it says of padding does not matter: no key there is seen. A pattern that fits one
    length only must fit that of the batch."""
    kinds, kind = extent.unique(dim=0, return_inverse=True)
    spans = [(first, after - first) for first, after in kinds.tolist()]
    fixed = pattern.natural_length is not None
    mods = [pattern.at(span if fixed else length) for _, length in spans]

    def mask_mod(
        b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
    ) -> torch.Tensor:
        own, allowed = kind.to(i.device)[b], []
        for k, (mod, (first, length)) in enumerate(zip(mods, spans, strict=True)):
            row, column = ((place - first).clamp(0, length - 1) for place in (i, j))
            allowed.append((own == k) & mod(b, h, row, column))
        found: torch.Tensor = reduce(or_, allowed)
        return found

    return mask_mod


def _can_grow(pattern: Pattern, causal: bool) -> bool:
    """Rows keep their edges as n grows, so that what was cached for old tokens stays true. Under
    causality a row has no edges to tokens still to come."""
    return pattern.prefix_stable or (causal and keeps_its_past(pattern))


def _from_position(
    pattern: Pattern | None, mask_mod: MaskMod | None, start: int, span: int
) -> PatternLike:
    """The pattern over `span` positions and the function, seen from position `start`: a cache that
    keeps only the last keys begins there."""
    if mask_mod is None and (pattern is None or start == 0):
        return pattern
    both = mask_mod if pattern is None else pattern.at(span)
    if mask_mod is not None and pattern is not None:
        both = _both(mask_mod, pattern.at(span))
    assert both is not None
    return lambda b, h, i, j: both(b, h, i + start, j + start)


def _given(mask: torch.Tensor, pattern: Pattern | None, rows: int, columns: int) -> View:
    """A mask (B, 1 or H, N, M) that the caller made: True = may attend, or added to the scores."""
    if mask.ndim != 4 or tuple(mask.shape[2:]) != (rows, columns):
        raise InvalidArgument(
            f"attention_mask of shape {tuple(mask.shape)}: expected (B, tokens) or "
            f"(B, 1 or heads, {rows}, {columns})"
        )
    if pattern is not None and rows != columns:
        raise InvalidArgument(
            f"attention_mask of shape {tuple(mask.shape)} with a pattern and a cache: which "
            "positions it speaks of is not known; give the (B, tokens) mask, or use_cache=False"
        )
    if mask.dtype != torch.bool:
        return View(columns, pattern, bias=mask)
    allowed = resolve(mask, columns)
    return View(columns, allowed if pattern is None else _both(allowed, pattern.at(columns)))


def _both(one: MaskMod, other: MaskMod) -> MaskMod:
    return lambda b, h, i, j: one(b, h, i, j) & other(b, h, i, j)
