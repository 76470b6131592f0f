"""Which keys the tokens of one call have, when some come from a cache and positions may restart."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyseq.errors import InvalidArgument
from anyseq.nn.cache import LayerCache
from anyseq.nn.past import counts_offsets_only, ignores_length, keeps_its_past
from anyseq.patterns import MaskMod, Pattern, PatternLike, as_pattern
from anyseq.positions import GridToeplitz, Toeplitz


@dataclass(frozen=True)
class Found:
    """Queries and keys of one call, as the operator is to count them.

    pattern, causal: which tokens attend to which, in the operator's numbering.
    first: the number of the first query; keys have 0, 1, ...
    held: (keys,) the positions of the keys, where others are forgotten; else None.
    gaps: whether some are missing between others, so that numbers do not tell offsets.
    start: the position of the key that has number 0.
    """

    pattern: PatternLike
    causal: bool
    first: int
    held: torch.Tensor | None = None
    gaps: bool = False
    start: int = 0

    def span(self, rows: int, keys: int) -> int:
        """How many tokens a table of offsets has to serve."""
        return self.first + rows if self.gaps else keys

    def columns(self, term: torch.Tensor) -> torch.Tensor:
        """Of a tensor (..., all tokens so far), what belongs to the keys that are held."""
        return term if self.held is None else term[..., self.held.to(term.device)]

    def term(
        self, term: torch.Tensor | Toeplitz | GridToeplitz, rows: int
    ) -> torch.Tensor | Toeplitz | GridToeplitz:
        """A bias or gain of offsets, or (..., all tokens so far), for the keys that are held."""
        # offsets of an array are told by positions, others by numbers, too, unless there are gaps
        if not (self.gaps or (self.start and isinstance(term, GridToeplitz))):
            return term
        if not isinstance(term, torch.Tensor):
            first = self.start + self.first
            term = term.dense(rows, first + rows, first)
        return self.columns(term)


def found(
    pattern: PatternLike,
    causal: bool,
    first: int,
    rows: int,
    positions: torch.Tensor | None,
    cache: LayerCache | None,
) -> Found:
    """What `rows` queries, the first at position `first`, find; all that a cache holds has been
    added to it already.

    positions: (batch, all tokens so far) where patterns find each token, if not at 0, 1, ...
    """
    held = None if cache is None else cache.held
    if held is None and positions is None:
        return Found(pattern, causal, first)
    by_offset = pattern is None or counts_offsets_only(as_pattern(pattern))
    if by_offset and held is None:
        return Found(pattern, causal, first)
    start = None if cache is None else cache.start
    if by_offset and start is not None:
        return Found(pattern, causal, first - start, held, start=start)
    named = as_pattern(pattern)
    if positions is not None and not (ignores_length(named) or (causal and keeps_its_past(named))):
        raise InvalidArgument(
            f"pattern {named!r}: its rows depend on the number of tokens, which differs between "
            "documents or padded sequences; expected a pattern such as Window or Global((0,)), or "
            "sequences of one length without padding"
        )
    looked_up = _looked_up(named, causal, first + rows, positions, held)
    return Found(looked_up, False, first, held, held is not None)


def _looked_up(
    pattern: Pattern,
    causal: bool,
    tokens: int,
    positions: torch.Tensor | None,
    held: torch.Tensor | None,
) -> MaskMod:
    """The pattern for tokens whose positions are not their numbers: computed token by token, with
    the mask of all pairs."""
    rule = pattern.at(tokens)

    def mask_mod(
        b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
    ) -> torch.Tensor:
        column = j if held is None else held.to(j.device)[j]
        places = (i, column) if positions is None else (positions[b, i], positions[b, column])
        allowed = rule(b, h, *places)
        return allowed & (column <= i) if causal else allowed

    return mask_mod
