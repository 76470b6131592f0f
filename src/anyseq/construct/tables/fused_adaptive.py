"""The fused form of hats on an adaptive grid."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch

from anyseq.base import at_least_one, whole
from anyseq.construct.counting.lattice import strides
from anyseq.construct.tables.leaves import Leaves
from anyseq.construct.tables.tensors import check_tensor, scale_of
from anyseq.errors import InvalidArgument

_BATCH = 1 << 15  # nodes looked up at a time


@dataclass(frozen=True)
class HatTable:
    """Σ_v values_v hat_v(x), over the nodes v of an adaptive grid, as in
    `anyseq.construct.tables.leaves`.

    At each level, from `coarsest` to that of 1/steps, x lies in one Kuhn simplex, and only its D+1
    nodes can have hats at x; they are looked up by binary search. Nodes of that grid that belong to
    a coarser one (all coordinates even) have their hats there.

    keys: the nodes, ascending, by their numbers in the finest grid. values: what multiplies hats;
    not f(v), but what f(v) is more than the hats of lower levels give. boxes: the leaves, lower
    corner and then side, in steps of the finest grid. constants: L and M of f within each leaf.
    """

    kind: ClassVar[str] = "hats"
    steps: int
    coarsest: int
    values: torch.Tensor  # (nodes, tokens, out_features)
    keys: torch.Tensor  # (nodes,) int64
    boxes: torch.Tensor  # (leaves, D+1) int64
    constants: torch.Tensor  # (leaves, 2)

    @classmethod
    def through(cls, leaves: Leaves, f: torch.Tensor, unit: float) -> HatTable:
        """The form with these values (nodes, tokens, out_features) at the nodes of the leaves; what
        multiplies hats is the nearest multiple of `unit`."""
        side = 2 ** (leaves.finest - leaves.level)
        table = cls(
            steps=2**leaves.finest,
            coarsest=leaves.coarsest,
            values=torch.zeros_like(f),
            keys=leaves.keys,
            boxes=torch.cat([leaves.corner * side[:, None], side[:, None]], dim=1),
            constants=torch.stack([leaves.lipschitz, leaves.curvature], dim=1),
        )
        points = (leaves.nodes.double() / table.steps).view(-1, leaves.tokens, leaves.features)
        for level in range(leaves.coarsest, leaves.finest + 1):
            own = (leaves.node_levels == level).nonzero()[:, 0]
            for rows in own.split(_BATCH):  # hats of their own level are still 0
                table.values[rows] = ((f[rows] - table(points[rows])) / unit).round() * unit
        return table

    def __post_init__(self) -> None:
        steps = at_least_one("steps", self.steps)
        if steps & (steps - 1) or whole("coarsest", self.coarsest) >= steps.bit_length():
            raise InvalidArgument(
                f"coarsest={self.coarsest}, steps={steps}: expected a level, and a power of two "
                "that is no coarser"
            )
        nodes, leaves = len(self.keys), len(self.boxes)
        check_tensor("values", self.values, (nodes, None, None))
        check_tensor("keys", self.keys, (nodes,), torch.int64)
        check_tensor("boxes", self.boxes, (leaves, None), torch.int64)
        check_tensor("constants", self.constants, (leaves, 2))
        if not nodes or not leaves:
            raise InvalidArgument(f"{nodes} nodes, {leaves} leaves: expected one or more")
        if torch.compiler.is_compiling():  # a graph has no numbers yet; they were looked at before
            return
        if not bool((self.keys.diff() > 0).all()):
            raise InvalidArgument("tensor 'keys': expected ascending numbers")

    @cached_property
    def scale(self) -> float:
        """The power of two by which the network that has this table divides its values: it bounds
        T at the nodes, and so everywhere."""
        axes = self.boxes.shape[1] - 1
        stride = torch.tensor(strides(self.steps + 1, axes))
        nodes = (self.keys[:, None] // stride % (self.steps + 1)).double() / self.steps
        points = nodes.view(len(nodes), self.values.shape[1], -1)
        return scale_of(torch.cat([self(part) for part in points.split(_BATCH)]))

    def covers(self, x: torch.Tensor) -> torch.Tensor:
        return ((x >= 0) & (x <= 1)).flatten(1).all(1)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        rows, weights = self.hats(x)
        return torch.einsum("bk,bkno->bno", weights, self.values[rows])

    def hats(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows in `values` and weights (batch, levels·(D+1)); weight 0 where there is no node."""
        flat = x.flatten(1)
        sides = [2**level for level in range(self.coarsest, self.steps.bit_length())]
        side = torch.tensor(sides)[:, None]
        scaled = flat[:, None] * side
        corner = torch.minimum(scaled.floor().clamp(min=0), side - 1.0)
        fraction, order = (scaled - corner).sort(dim=2, descending=True)
        weight = -torch.diff(
            fraction,
            dim=2,
            prepend=torch.ones_like(fraction[..., :1]),
            append=0 * fraction[..., :1],
        )
        # the walk from the corner: numbers of nodes, and how many of their coordinates are odd
        stride = torch.tensor(strides(self.steps + 1, flat.shape[1]))
        scale = torch.tensor([self.steps // one for one in sides])[:, None]
        start = (corner.long() * scale) @ stride
        walk = torch.cat([start[..., None], stride[order] * scale], dim=2).cumsum(2)
        odd = corner.long() % 2
        turn = 1 - 2 * odd.gather(2, order)
        odds = torch.cat([odd.sum(2, keepdim=True), turn], dim=2).cumsum(2)
        row = torch.searchsorted(self.keys, walk).clamp(max=len(self.keys) - 1)
        own = (odds > 0) | (side == sides[0])
        weight = torch.where(own & (self.keys[row] == walk), weight, 0.0)
        return row.flatten(1), weight.flatten(1)

    def tensors(self) -> dict[str, torch.Tensor]:
        return {
            "values": self.values,
            "keys": self.keys,
            "boxes": self.boxes,
            "constants": self.constants,
        }

    def facts(self) -> dict[str, Any]:
        return {"kind": self.kind, "steps": self.steps, "coarsest": self.coarsest}
