"""A number for each graph: the Graphormer-style model, its peer from torch's own parts, the
task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import nn

from anyseq.experiments.data import Data
from anyseq.experiments.experiment import Batch, Ratio, Task
from anyseq.experiments.molecules import Graphs, graphs
from anyseq.experiments.torch_layer import TorchLayer
from anyseq.nn import GraphTransformer, shortest_paths

_BONDS = 3  # kinds of edges
_ALIKE = 4  # a batch is a slice of so many, sorted by size
_HELD_OUT_ROWS = 100
_AT_ONCE = 500  # graphs whose paths are found together


class Prepared(NamedTuple):
    """Graphs with their distances and paths, which are found once.

    distance: (graphs, nodes, nodes) uint8, as `shortest_paths` gives them; path: (graphs, nodes,
    nodes, hops) uint8, the edges from j on a shortest path to i, 0 where it is over.
    """

    graphs: Graphs
    distance: torch.Tensor
    path: torch.Tensor

    def batch(self, rows: torch.Tensor) -> Batch:
        """Those graphs, without the nodes that are padding in all of them."""
        types, _, real, y = (part[rows] for part in self.graphs)
        n = int(real.sum(1).max())
        return {
            "types": types[:, :n],
            "real": real[:, :n],
            "distance": self.distance[rows, :n, :n].long(),
            "path": self.path[rows, :n, :n],
            "y": y,
        }


@lru_cache(maxsize=1)
def prepared(data: Data, count: int, hops: int) -> tuple[Prepared, Prepared]:
    """The graphs to train on, and those to be measured on."""
    found = graphs(data.within("zinc"), count)
    return _prepared(found.train, hops), _prepared(found.test, hops)


def _prepared(given: Graphs, hops: int) -> Prepared:
    parts = [_paths(bonds, hops) for bonds in given.bonds.split(_AT_ONCE)]
    distance, path = (torch.cat(side) for side in zip(*parts, strict=True))
    return Prepared(given, distance, path)


def _paths(bonds: torch.Tensor, hops: int) -> tuple[torch.Tensor, torch.Tensor]:
    """distance and path: from j to a neighbour that is nearer to i, the first of them, and so on;
    what has no path to i stays where it is."""
    distance = shortest_paths(bonds > 0)
    joined = bonds[:, None] > 0
    nearer = joined & (distance[:, :, None, :] == distance[:, :, :, None] - 1)  # [g, i, j, u]
    following = torch.where(nearer.any(-1), nearer.int().argmax(-1), torch.arange(len(bonds[0])))
    kind = bonds[:, None].expand_as(nearer).gather(-1, following[..., None])[..., 0]
    steps = [kind]  # kind: (graphs, i, j) the edge from j towards i
    at = following
    for _ in range(1, hops):
        steps.append(kind.gather(-1, at))
        at = following.gather(-1, at)
    return distance.to(torch.uint8), torch.stack(steps, -1)


class GraphRegressor(nn.Module):
    """A GraphTransformer with an edge term in its bias; y from the virtual node.

    The edge term of i and j is the mean, over the first `hops` edges on a shortest path from j to
    i, of a learned number for each hop, kind of edge and head.
    """

    def __init__(
        self,
        kinds: int,
        dim: int,
        depth: int,
        heads: int,
        hidden: int,
        *,
        hops: int,
        gain: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        self.encoder = GraphTransformer(
            dim, depth, heads, types=kinds, hidden=hidden, gain=gain, dropout=dropout
        )
        self.edge = nn.Parameter(torch.randn(hops * _BONDS, heads) * 0.02)
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 1)

    def forward(self, batch: Batch) -> torch.Tensor:
        """(graphs,)."""
        path, kinds = batch["path"], torch.arange(1, _BONDS + 1, device=batch["path"].device)
        # a product with ones and zeros: gradients of a look-up are slow on CPUs
        edges = (path[..., None] == kinds).flatten(-2).to(self.edge.dtype)
        length = (path > 0).sum(-1, dtype=edges.dtype).clamp(min=1.0)
        bias = (edges @ self.edge / length[..., None]).permute(0, 3, 1, 2)
        out = self.encoder(batch["types"], batch["distance"], batch["real"], pair_bias=bias)
        y: torch.Tensor = self.head(self.norm(out.graph))[:, 0]
        return y


class _TorchBlock(TorchLayer):
    """torch's layer in place of a Block."""

    def forward(  # type: ignore[override]
        self, x: torch.Tensor, *, bias: torch.Tensor, gain: torch.Tensor | None
    ) -> torch.Tensor:
        """(batch, tokens, dim) -> (batch, tokens, dim)."""
        return super().forward(x, bias, gain)


def torch_regressor(model: GraphRegressor, hidden: int, dropout: float) -> GraphRegressor:
    """The model with torch's own layers."""
    heads, depth = len(model.encoder.bias), len(model.encoder.blocks)
    model.encoder.blocks = nn.ModuleList(
        _TorchBlock(model.encoder.dim, heads, hidden, dropout=dropout) for _ in range(depth)
    )
    return model


class GraphTask(Task):
    """L1 in the unit of y."""

    def __init__(self, train: Prepared, test: Prepared, *, real_data: bool) -> None:
        self.train, self.test, self.real_data = train, test, real_data
        self.sizes = train.graphs.real.sum(1)

    def batch(self, size: int, rng: torch.Generator) -> Batch:
        """A random slice of more graphs, sorted by size: each is as likely as any other, and there
        is little padding."""
        drawn = torch.randint(len(self.sizes), (_ALIKE * size,), generator=rng)
        drawn = drawn[self.sizes[drawn].argsort(stable=True)]
        first = int(torch.randint(_ALIKE, (), generator=rng)) * size
        return self.train.batch(drawn[first : first + size])

    def held_out(self) -> Sequence[Batch]:
        order = self.test.graphs.real.sum(1).argsort(stable=True)
        return [self.test.batch(rows) for rows in order.split(_HELD_OUT_ROWS)]

    def loss(self, model: nn.Module, batch: Batch) -> Ratio:
        return Ratio.of((model(batch) - batch["y"]).abs())

    def scores(self, model: nn.Module, batch: Batch) -> Mapping[str, Ratio]:
        return {"mae": self.loss(model, batch)}

    def finish(self, means: Mapping[str, float]) -> Mapping[str, float]:
        return {**means, "real_data": float(self.real_data)}
