"""Bias and gain of some heads, tile by tile: their values, and the gradients that come back."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from anyseq.ops.tiles.batches import Batch


class Term(Protocol):
    """A matrix over (query, key) for each head, of which only tiles are ever made."""

    gradient: Tensor | None

    def tiles(self, batch: Batch) -> Tensor:
        """The entries, broadcastable to (heads, T, m, w)."""

    def collect(self, batch: Batch, change: Tensor) -> None:
        """Add the gradient (heads, T, m, w) of the entries to that of the parameters."""


class ToeplitzTerm:
    """Entry (i, j) is table[:, p(q_offset + i) - p(j) + reach], for a table (heads or 1,
    2·reach + 1). places: p(0), p(1), ...; 0, 1, ... unless given."""

    def __init__(
        self, table: Tensor, gradient: Tensor | None, q_offset: int, places: Tensor | None = None
    ) -> None:
        self.table, self.gradient = table, gradient
        self.q_offset, self.places = q_offset, places

    def tiles(self, batch: Batch) -> Tensor:
        return self.table[:, self._places(batch)]

    def collect(self, batch: Batch, change: Tensor) -> None:
        assert self.gradient is not None
        places = self._places(batch)
        change = change.sum_to_size(len(self.table), *change.shape[1:])
        change = change.sum_to_size(len(self.table), *places.shape)
        self.gradient.index_add_(1, places.flatten(), change.flatten(1))

    def _places(self, batch: Batch) -> Tensor:
        """(T, m, w), or (1, m, w) if they are the same in all tiles."""
        rows, columns = batch.rows + self.q_offset, batch.columns
        if self.places is not None:
            rows, columns = self.places[rows], self.places[columns]
        places = self.table.shape[1] // 2 + rows[:, :, None] - columns[:, None, :]
        return places[:1] if bool((places == places[:1]).all()) else places


class GivenTerm:
    """Entry (i, j) is that of given matrices (heads or 1, N or 1, M or 1); an axis of size 1 is
    shared."""

    def __init__(self, matrix: Tensor, gradient: Tensor | None) -> None:
        self.matrix, self.gradient = matrix, gradient

    def tiles(self, batch: Batch) -> Tensor:
        return entries(self.matrix, batch)

    def collect(self, batch: Batch, change: Tensor) -> None:
        assert self.gradient is not None
        h = torch.arange(len(self.gradient), device=change.device)[:, None, None, None]
        i, j = _places(self.gradient, batch)
        shape = torch.broadcast_shapes(h.shape, i.shape, j.shape)
        self.gradient.index_put_((h, i, j), change.sum_to_size(shape), accumulate=True)


def entries(matrix: Tensor, batch: Batch) -> Tensor:
    """(heads or 1, T, m or 1, w or 1) of matrices (heads or 1, N or 1, M or 1)."""
    i, j = _places(matrix, batch)
    return matrix[:, i, j]


def _places(matrix: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """The rows and columns of a batch; 0 of an axis that is shared."""
    i, j = batch.rows[:, :, None], batch.columns[:, None, :]
    _, high, wide = matrix.shape
    return (i if high > 1 else i[:, :1] * 0), (j if wide > 1 else j[:, :, :1] * 0)
