"""A Graphormer-like encoder: attention over the nodes of a graph, biased by their distance."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn.functional import embedding, pad

from anyseq.base import at_least_one
from anyseq.errors import InvalidArgument
from anyseq.nn.attention import Attention
from anyseq.nn.block import Block
from anyseq.nn.feedforward import FeedForward
from anyseq.nn.input_position import INIT_STD


def shortest_paths(adjacency: torch.Tensor, furthest: int = 20) -> torch.Tensor:
    """(batch, nodes, nodes) int64: the edges on a shortest path from i to j, at most `furthest`;
    furthest + 1 where there is no path. adjacency: (batch, nodes, nodes) bool."""
    from scipy.sparse.csgraph import shortest_path

    square = adjacency.ndim == 3 and adjacency.shape[1] == adjacency.shape[2] > 0
    if adjacency.dtype != torch.bool or not square:
        raise InvalidArgument(
            f"adjacency of dtype {adjacency.dtype} and shape {tuple(adjacency.shape)}: expected "
            "bool of shape (batch, nodes, nodes)"
        )
    at_least_one("furthest", furthest)
    graphs = adjacency.cpu().numpy()
    paths = np.stack([shortest_path(graph, unweighted=True) for graph in graphs])
    steps = np.where(np.isinf(paths), furthest + 1, np.minimum(paths, furthest))
    return torch.from_numpy(steps.astype(np.int64)).to(adjacency.device)


class GraphOutput(NamedTuple):
    """graph: (batch, dim), the output of the virtual node; nodes: (batch, nodes, dim)."""

    graph: torch.Tensor
    nodes: torch.Tensor


class GraphTransformer(nn.Module):
    """Attention in which node i attends to node j with B and C that depend on their distance and
    head.

    x = W features (or the embedding of a node's type) + the embedding of its degree; a virtual
    node, with a bias of its own to and from all nodes, is put before them. All layers share B and
    C. Permuting the nodes permutes the outputs of the nodes and leaves that of the graph.

    features, types: the size of node features, or the number of node types; one of the two.
    furthest: distances beyond share a bias. degrees: larger degrees share an embedding.
    gain: whether to have C, which starts at 1 (URPE).
    """

    def __init__(
        self,
        dim: int,
        depth: int,
        heads: int = 1,
        *,
        features: int | None = None,
        types: int | None = None,
        furthest: int = 20,
        degrees: int = 64,
        gain: bool = False,
        norm: Literal["pre", "none"] = "pre",
        hidden: int | None = None,
        dropout: float = 0.0,
        backend: str = "auto",
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        at_least_one("depth", depth)
        hidden = 4 * dim if hidden is None else at_least_one("hidden", hidden)
        if (features is None) == (types is None):
            raise InvalidArgument(f"features={features}, types={types}: expected one of the two")
        self.dim, self.features, self.types = at_least_one("dim", dim), features, types
        self.furthest = at_least_one("furthest", furthest)
        self.degrees = at_least_one("degrees", degrees)

        def learned(*shape: int) -> nn.Parameter:
            empty = torch.empty(*shape, dtype=dtype, device=device)
            return nn.Parameter(nn.init.normal_(empty, std=INIT_STD))

        size = at_least_one("features", features) if types is None else at_least_one("types", types)
        self.node = learned(size, dim)
        self.degree = learned(degrees + 1, dim)
        self.virtual = learned(dim)
        # the virtual node, then distances 0, ..., furthest, then no path
        labels = furthest + 3
        self.bias = learned(heads, labels)
        self.gain = (
            nn.Parameter(torch.ones(heads, labels, dtype=dtype, device=device)) if gain else None
        )
        self.blocks = nn.ModuleList(
            Block(
                Attention(dim, heads, dropout=dropout, backend=backend, dtype=dtype, device=device),
                FeedForward(dim, hidden, dtype=dtype, device=device),
                norm=norm,
                dropout=dropout,
            )
            for _ in range(depth)
        )

    def forward(
        self,
        nodes: torch.Tensor,
        graph: torch.Tensor,
        node_mask: torch.Tensor | None = None,
        *,
        pair_bias: torch.Tensor | None = None,
    ) -> GraphOutput:
        """nodes: (batch, nodes, features), or types (batch, nodes).

        graph: the adjacency (batch, nodes, nodes), bool, or what `shortest_paths` made of it with
            the same `furthest`: find them once when training.
        node_mask: (batch, nodes) bool, False for padding, which no node attends to.
        pair_bias: (batch, heads, nodes, nodes), added to B: further features of a pair of nodes,
            such as the edges between them.
        """
        distance = self._distances(nodes, graph, node_mask)
        real = distance.new_ones(distance.shape[:2], dtype=torch.bool)
        real = real if node_mask is None else node_mask
        neighbours = ((distance == 1) & real[:, None, :]).sum(-1).clamp(max=self.degrees)
        x = self._embedded(nodes) + self.degree[neighbours]
        x = torch.cat([self.virtual.expand(len(x), 1, -1), x], dim=1)
        label = pad(distance + 1, (1, 0, 1, 0), value=0)
        bias = self.bias[:, label].transpose(0, 1).contiguous()
        if pair_bias is not None:
            wanted = (len(distance), self.bias.shape[0], *distance.shape[1:])
            if tuple(pair_bias.shape) != wanted:
                raise InvalidArgument(
                    f"pair_bias of shape {tuple(pair_bias.shape)}: expected {wanted}, (batch, "
                    "heads, nodes, nodes)"
                )
            bias = bias + pad(pair_bias, (1, 0, 1, 0))
        if node_mask is not None:  # here, so that it is done once for all layers
            seen = pad(node_mask, (1, 0), value=True)
            bias = bias.masked_fill(~seen[:, None, None, :], -torch.inf)
        gain = None if self.gain is None else self.gain[:, label].transpose(0, 1).contiguous()
        for block in self.blocks:
            x = block(x, bias=bias, gain=gain)
        return GraphOutput(graph=x[:, 0], nodes=x[:, 1:])

    def _embedded(self, nodes: torch.Tensor) -> torch.Tensor:
        return nodes @ self.node if self.types is None else embedding(nodes, self.node)

    def _distances(
        self, nodes: torch.Tensor, graph: torch.Tensor, node_mask: torch.Tensor | None
    ) -> torch.Tensor:
        """(batch, nodes, nodes), checked."""
        shape = tuple(nodes.shape)
        if self.types is None and (len(shape) != 3 or shape[2] != self.features):
            raise InvalidArgument(
                f"nodes of shape {shape}: expected (batch, nodes, features={self.features})"
            )
        if self.types is not None and (len(shape) != 2 or nodes.dtype.is_floating_point):
            raise InvalidArgument(
                f"nodes of dtype {nodes.dtype} and shape {shape}: expected types, whole numbers of "
                "shape (batch, nodes)"
            )
        if tuple(graph.shape) != (*shape[:2], shape[1]) or graph.dtype.is_floating_point:
            raise InvalidArgument(
                f"graph of dtype {graph.dtype} and shape {tuple(graph.shape)}: expected "
                f"(batch, nodes, nodes) = {(*shape[:2], shape[1])}, a bool adjacency or distances"
            )
        if node_mask is not None and (
            node_mask.dtype != torch.bool or tuple(node_mask.shape) != shape[:2]
        ):
            raise InvalidArgument(
                f"node_mask of dtype {node_mask.dtype} and shape {tuple(node_mask.shape)}: "
                f"expected bool of shape (batch, nodes) = {shape[:2]}"
            )
        if graph.dtype != torch.bool:
            if not torch.compiler.is_compiling():  # a graph cannot depend on what it finds
                self._check(graph)
            return graph
        if node_mask is not None:  # no path leads through padding
            graph = graph & node_mask[:, :, None] & node_mask[:, None, :]
        return shortest_paths(graph, self.furthest)

    def _check(self, distance: torch.Tensor) -> None:
        """Distances from 1 to furthest + 1 between nodes, and 0 from a node to itself."""
        itself = torch.eye(distance.shape[1], dtype=torch.bool, device=distance.device)
        right = torch.where(itself, distance == 0, distance >= 1) & (distance <= self.furthest + 1)
        if not bool(right.all()):
            raise InvalidArgument(
                f"graph of dtype {distance.dtype}: expected distances, 0 from a node to itself and "
                f"1 to furthest + 1 = {self.furthest + 1} otherwise, as shortest_paths gives them "
                "(an adjacency must be bool)"
            )
