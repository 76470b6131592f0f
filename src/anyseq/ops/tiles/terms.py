"""Bias and gain of one head, tile by tile: their values, and the gradients that come back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import torch

from anyseq.ops.layout import Pass, Run


class Term(ABC):
    """A matrix over (query, key), of which only tiles are ever made."""

    wants_gradient: bool

    @abstractmethod
    def tile(self, part: Pass, run: Run) -> torch.Tensor:
        """The entries of the run's tiles, broadcastable to (tiles, height, width)."""

    @abstractmethod
    def collect(self, part: Pass, run: Run, gradient: torch.Tensor) -> None:
        """Add the gradient (tiles, height, width) of the entries to that of the parameters."""


class ToeplitzTerm(Term):
    """Entry (i, j) is table[i - j + reach], for a table (2·reach + 1,).

    In a pass that takes its rows backward, i - j falls along rows and columns alike. A tile is then
    a view of the reversed table, and the sum along its antidiagonals is a sum of columns once the
    tile is stored askew (see `askew`).
    """

    def __init__(self, table: torch.Tensor, gradient: torch.Tensor | None, q_offset: int) -> None:
        self.table, self.gradient, self.q_offset = table, gradient, q_offset
        self.reach = len(table) // 2
        self.reversed = table.flip(0)
        self.wants_gradient = gradient is not None

    def tile(self, part: Pass, run: Run) -> torch.Tensor:
        if part.backward:
            shape = (1, run.height, run.width)
            return self.reversed.as_strided(shape, (0, 1, 1), self._first(part, run))
        return self.table[self._entries(part, run)]

    def collect(self, part: Pass, run: Run, gradient: torch.Tensor) -> None:
        assert self.gradient is not None
        if part.backward:
            sums = straight(gradient).sum(0)[:-1]
            last = 2 * self.reach - self._first(part, run)
            self.gradient[last - len(sums) + 1 : last + 1].add_(sums.flip(0))
            return
        entries = self._entries(part, run)
        if run.alike:
            gradient = gradient.sum(0)
        self.gradient.index_add_(0, entries.flatten(), gradient.flatten())

    def _entries(self, part: Pass, run: Run) -> torch.Tensor:
        """(1 or tiles, height, width) places in the table."""
        run = replace(run, tiles=1) if run.alike else run
        i = run.of_rows(part.rows) + self.q_offset
        return i[:, :, None] - run.of_columns(part.columns)[:, None, :] + self.reach

    def _first(self, part: Pass, run: Run) -> int:
        """The place in the reversed table of the tile's first entry."""
        first_query = self.q_offset + len(part.rows) - 1 - run.first_row
        return self.reach - (first_query - run.first_column)


class GivenTerm(Term):
    """Entry (i, j) is that of a given matrix (N or 1, M or 1); an axis of size 1 is shared."""

    def __init__(self, matrix: torch.Tensor, gradient: torch.Tensor | None) -> None:
        self.matrix, self.gradient = matrix, gradient
        self.wants_gradient = gradient is not None

    def tile(self, part: Pass, run: Run) -> torch.Tensor:
        view = self._view(self.matrix, part, run)
        return self.matrix[self._entries(part, run)] if view is None else view

    def collect(self, part: Pass, run: Run, gradient: torch.Tensor) -> None:
        assert self.gradient is not None
        view = self._view(self.gradient, part, run)
        if view is not None:
            view.add_(gradient)
            return
        entries = self._entries(part, run)
        shape = torch.broadcast_shapes(*(index.shape for index in entries))
        self.gradient.index_put_(entries, gradient.sum_to_size(shape), accumulate=True)

    def _view(self, matrix: torch.Tensor, part: Pass, run: Run) -> torch.Tensor | None:
        """The tiles as a view, if rows and columns stand in their own order and none is shared."""
        if part.picks_rows or part.picks_columns or 1 in matrix.shape:
            return None
        down, right = matrix.stride()
        return matrix.as_strided(
            (run.tiles, run.height, run.width),
            (run.row_step * down + run.column_step * right, down, right),
            matrix.storage_offset() + run.first_row * down + run.first_column * right,
        )

    def _entries(self, part: Pass, run: Run) -> tuple[torch.Tensor, torch.Tensor]:
        i, j = run.of_rows(part.rows)[:, :, None], run.of_columns(part.columns)[:, None, :]
        rows, columns = self.matrix.shape
        return (i if rows > 1 else i[:, :1] * 0), (j if columns > 1 else j[:, :, :1] * 0)


class Mask:
    """Which pairs are forbidden, by a given matrix (N or 1, M or 1), True = may attend."""

    def __init__(self, given: torch.Tensor) -> None:
        self.given = given

    def tile(self, part: Pass, run: Run) -> torch.Tensor:
        """(tiles, height, width) bool, or what broadcasts to it: True where forbidden."""
        return ~GivenTerm(self.given, None).tile(part, run)


def askew(buffer: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """(1, height, width) a view into a zeroed buffer in which row a starts a places further right,
    so that the columns of `straight` are the antidiagonals of the tile."""
    pitch = height + width
    return buffer.as_strided((1, height, width), (0, pitch + 1, 1))


def straight(tile: torch.Tensor) -> torch.Tensor:
    """(height, height + width) the buffer under a tile that is stored askew."""
    _, height, width = tile.shape
    return tile.as_strided((height, height + width), (height + width, 1))
