"""What the queries of one call may attend to: the model's mask and the pattern together.

A pattern is about places in a sequence, and the sequences of a padded batch begin in different
places. Unless a pattern depends on i - j only, batch rows that begin and end alike are attended to
together, without their padding: each as it would be alone, at the cost of the pattern.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import and_

import torch

from anyseq.errors import InvalidArgument
from anyseq.hf.mask import AttentionMask
from anyseq.nn import keeps_its_past
from anyseq.patterns import MaskMod, Pattern, PatternLike, resolve


@dataclass(frozen=True)
class View:
    """Arguments of `anyseq.attention` for some batch rows, queries and keys of a call.

    rows: the batch rows, or None for all. causal=None: it is not known.
    """

    queries: slice
    keys: slice
    rows: torch.Tensor | None = None
    pattern: PatternLike = None
    key_mask: torch.Tensor | None = None
    documents: torch.Tensor | None = None
    bias: torch.Tensor | None = None
    causal: bool | None = None
    q_offset: int = 0

    def of(self, term: torch.Tensor, *, columns: bool = True) -> torch.Tensor:
        """The part of (B or 1, H, N, M) in this view; without columns, of (B, H, N, ...)."""
        if self.rows is not None and len(term) > 1:
            term = term[self.rows.to(term.device)]
        term = term[:, :, self.queries]
        return term[..., self.keys] if columns else term

    def of_keys(self, side: torch.Tensor) -> torch.Tensor:
        """The part of keys or values (B, H, M, D) in this view."""
        chosen = side if self.rows is None else side[self.rows.to(side.device)]
        return chosen[:, :, self.keys]


def views(
    mask: torch.Tensor | None,
    pattern: Pattern | None,
    rows: int,
    columns: int,
) -> list[View]:
    """One for all batch rows, or one for each group of them; queries in none are padding.

    `pattern` acts on positions, which an `AttentionMask` has and a 4D mask of the caller does not,
    unless there are as many queries as keys.
    """
    if isinstance(mask, AttentionMask):
        return _own(mask, pattern, rows, columns)
    if mask is None:
        return [View(slice(rows), slice(columns), pattern=pattern)]
    return [_given(mask, pattern, rows, columns)]


def _own(mask: AttentionMask, pattern: Pattern | None, rows: int, columns: int) -> list[View]:
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
    last = mask.q_offset + rows
    # Slots of a static cache that are still empty lie after the last query.
    end = min(mask.kv_offset + columns, last) if mask.causal else mask.kv_offset + columns
    if pattern is None or mask.extent is None or _same_anywhere(pattern, mask.extent):
        return [_part(mask, pattern, None, (0, max(end, last)), end)]
    kinds, kind = mask.extent.unique(dim=0, return_inverse=True)
    parts = [
        _part(mask, pattern, (kind == k).nonzero()[:, 0], (first, after), end)
        for k, (first, after) in enumerate(kinds.tolist())
    ]
    return [part for part in parts if part.queries.start < part.queries.stop]


def _part(
    mask: AttentionMask,
    pattern: Pattern | None,
    rows: torch.Tensor | None,
    extent: tuple[int, int],
    end: int,
) -> View:
    """Batch rows whose sequences lie in the positions of `extent`, and keys up to position `end`.

    `pattern` is that of the tokens there, counted from the first of them; one that fits a single
    length must fit that of the batch. The model's own restrictions use its own positions.
    """
    first, after = extent
    key, query = max(first, mask.kv_offset), max(first, mask.q_offset)
    stop, last = min(after, end), min(after, mask.q_offset + mask.shape[2])
    keys = slice(key - mask.kv_offset, stop - mask.kv_offset)
    chosen = slice(None) if rows is None else rows
    patterns = [] if mask.pattern is None else [mask.pattern]  # it looks at i - j only
    functions: list[MaskMod] = []
    if pattern is not None:
        span = max(end, mask.q_offset + mask.shape[2])
        length = after - first if pattern.natural_length is None else span
        if key == first and max(stop, last) - key == length:
            patterns.append(pattern)
        else:  # a cache that keeps only the last keys, or a mask of another length
            functions.append(_shifted(pattern.at(length), key - first))
    if mask.mask_mod is not None:
        functions.append(_shifted(mask.mask_mod, key, rows))
    both: PatternLike = reduce(and_, patterns) if patterns else None
    if functions:
        named = [] if both is None else [both.at(max(stop, last) - key)]
        both = reduce(_both, [*functions, *named])
    return View(
        queries=slice(query - mask.q_offset, last - mask.q_offset),
        keys=keys,
        rows=rows,
        pattern=both,
        key_mask=None if mask.key_mask is None else mask.key_mask[chosen, keys],
        documents=None if mask.documents is None else mask.documents[chosen, keys],
        causal=mask.causal,
        q_offset=query - key,
    )


def _same_anywhere(pattern: Pattern, extent: torch.Tensor) -> bool:
    """Whether it depends on i - j only, in the same way for all lengths up to that of the batch:
    then it does not matter where a sequence begins or ends."""
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


def _can_grow(pattern: Pattern, causal: bool) -> bool:
    """Rows keep their edges as n grows, so that what was cached for old tokens stays valid. Under
    causality a row has no edges to later tokens."""
    return pattern.prefix_stable or (causal and keeps_its_past(pattern))


def _shifted(mask_mod: MaskMod, start: int, rows: torch.Tensor | None = None) -> MaskMod:
    """The function relative to position `start`, for some batch rows."""

    def moved(b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return mask_mod(b if rows is None else rows.to(b.device)[b], h, i + start, j + start)

    return moved


def _given(mask: torch.Tensor, pattern: Pattern | None, rows: int, columns: int) -> View:
    """A mask (B, 1 or H, N or 1, M) that the caller made, or the model itself: True = may attend,
    or added to the scores."""
    if mask.ndim == 4 and mask.shape[2] == 1:  # padding only
        mask = mask.expand(-1, -1, rows, -1)
    if mask.ndim != 4 or tuple(mask.shape[2:]) != (rows, columns):
        raise InvalidArgument(
            f"attention_mask of shape {tuple(mask.shape)}: expected (B, tokens) or "
            f"(B, 1 or heads, {rows}, {columns})"
        )
    if pattern is not None and rows != columns:
        raise InvalidArgument(
            f"attention_mask of shape {tuple(mask.shape)} with a pattern and a cache: which "
            "positions it is about is not known; give the (B, tokens) mask, or use_cache=False"
        )
    whole = View(slice(rows), slice(columns))
    if mask.dtype != torch.bool:
        return replace(whole, pattern=pattern, bias=mask)
    allowed = resolve(mask, columns)
    return replace(
        whole, pattern=allowed if pattern is None else _both(allowed, pattern.at(columns))
    )


def _both(one: MaskMod, other: MaskMod) -> MaskMod:
    return lambda b, h, i, j: one(b, h, i, j) & other(b, h, i, j)
