"""What the structured form of a network says should happen to one input, stage by stage.

`told(fused, x)` knows nothing of the weights: an explanation compares it with what the layers did.
A fused form of a new kind says its part by `told.register`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import singledispatch

import torch

from anyseq.base import EXACT_BITS
from anyseq.construct.contextual import Contextual
from anyseq.construct.counting.lattice import strides
from anyseq.construct.network.stages import WHOLE, Stage
from anyseq.construct.tables.fused import CellTable, Fused, KuhnTable
from anyseq.construct.tables.fused_adaptive import HatTable
from anyseq.construct.tables.fused_ridges import RidgeTable
from anyseq.construct.tables.tensors import scale_of


@dataclass(frozen=True, eq=False)
class Node:
    """A node of the simplex that holds x: the point (tokens, features), its weight, and the value
    (tokens, out_features) that the network holds for it."""

    point: torch.Tensor
    weight: float
    value: torch.Tensor


@dataclass(frozen=True)
class Told:
    """expected: by the name of a stage, what its reading should be for each token.
    ids: the same for stages that read ids, in the unit of x.
    notes: by the name of a stage, further lines about x. nodes: if values are interpolated."""

    expected: Mapping[str, torch.Tensor] = field(default_factory=dict)
    ids: Mapping[str, torch.Tensor] = field(default_factory=dict)
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()

    def of(self, stage: Stage) -> torch.Tensor | None:
        """What the reading of a stage should be, if that is known."""
        if stage.name in self.ids:
            return self.ids[stage.name] * stage.reading.digits[0]
        found = self.expected.get(stage.name)
        return None if found is None else stage.reading.known(found)


@singledispatch
def told(fused: Fused, x: torch.Tensor) -> Told:
    """For x (tokens, features) that the form covers. Of a form without stages: what comes out."""
    return Told(expected={WHOLE: fused(x[None])[0]})


@told.register
def _kuhn(fused: KuhnTable, x: torch.Tensor) -> Told:
    corner, rows, weights = fused.simplex(x[None])
    steps, per_axis = fused.steps, fused.steps + 1
    stride = torch.tensor(strides(per_axis, x.numel()))
    points = (rows[0][:, None] // stride % per_axis).double() / steps
    nodes = tuple(
        Node(point.view_as(x), float(weight), fused.values[row])
        for point, weight, row in zip(points, weights[0], rows[0], strict=True)
        if weight > 0
    )
    y = fused(x[None])[0]
    apart = _set_apart(y, scale_of(fused.values))
    cube = " x ".join(f"[{c / steps:g}, {(c + 1) / steps:g}]" for c in corner[0].tolist())
    return _interpolated(x, y, apart, f"x lies in the cube {cube}", nodes)


def _set_apart(y: torch.Tensor, scale: float) -> torch.Tensor:
    """(tokens, entries): what tokens hold of all outputs y, scaled, others' shifted by -2."""
    others = 1 - torch.eye(len(y), dtype=torch.float64).repeat_interleave(y.shape[1], dim=1)
    return y.flatten() / scale - 2 * others


@told.register
def _hats(fused: HatTable, x: torch.Tensor) -> Told:
    (rows, weights), steps = fused.hats(x[None]), fused.steps
    stride = torch.tensor(strides(steps + 1, x.numel()))
    points = (fused.keys[rows[0]][:, None] // stride % (steps + 1)).double() / steps
    nodes = tuple(
        Node(point.view_as(x), float(weight), fused.values[row])
        for point, weight, row in zip(points, weights[0], rows[0], strict=True)
        if weight > 0
    )
    low, side = fused.boxes[:, :-1] / steps, fused.boxes[:, -1:] / steps
    here = int(((x.flatten() >= low) & (x.flatten() <= low + side)).all(1).nonzero()[0])
    ends = zip(low[here].tolist(), (low + side)[here].tolist(), strict=True)
    box = " x ".join(f"[{first:g}, {last:g}]" for first, last in ends)
    note = (
        f"x lies in the box {box}, one of {len(low):,}; the values of its nodes are what f is "
        "there above the sum of the wider hats"
    )
    y = fused(x[None])[0]
    return _interpolated(x, y, _set_apart(y, fused.scale), note, nodes)


@told.register
def _ridges(fused: RidgeTable, x: torch.Tensor) -> Told:
    y = fused(x[None])[0]
    note = (
        f"{len(fused.low):,} ridges with {int((fused.pieces - 1).sum()):,} kinks, around the mean "
        "of f"
    )
    return Told(expected={"ridges": y, "idle": y}, notes={"ridges": (note,)})


def _interpolated(
    x: torch.Tensor, y: torch.Tensor, values: torch.Tensor, note: str, nodes: tuple[Node, ...]
) -> Told:
    """What method "gather" does stage by stage, if T(x) = y; values: what each token holds of it
    before it selects its own."""
    return Told(
        expected={
            "gather": x.flatten().expand(len(x), -1),
            "interpolate": values,
            "select": y,
            "idle": y,
        },
        notes={"interpolate": (note,)},
        nodes=nodes,
    )


@told.register
def _cells(fused: CellTable, x: torch.Tensor) -> Told:
    tokens, features = x.shape
    cells = fused.cells(x[None])[0]
    base = torch.tensor(fused.offsets, dtype=torch.float64)[:, None]
    y = fused(x[None])[0]
    numbers = ", ".join(
        f"token {token} in {tuple(cell) if features > 1 else cell[0]}"
        for token, cell in enumerate(cells.tolist())
    )
    repeated = not fused.positions and len(cells.unique(dim=0)) < tokens
    erased = "two tokens lie in one cell: Theorem 2 maps the sequence to 0" if repeated else None
    return Told(
        expected={
            "positions": x + base,
            "quantise": cells / fused.steps + base,
            "value map": y,
            "clip": y,
            "idle": y,
        },
        ids=_dense_ids(fused, cells),
        notes={
            "quantise": (f"cells, from 0 to {fused.steps - 1}: {numbers}",),
            "erase": (erased,) if erased else (),
        },
    )


def contextual_of(fused: CellTable, features: int) -> Contextual | None:
    """The mapping of dense attention for so many features; None if there is no network of it."""
    tokens = fused.values.shape[1]
    width = max(features, fused.values.shape[2])
    log_steps = fused.steps.bit_length() - 1
    context = Contextual(tokens, features, width, log_steps, fused.positions)
    if fused.offsets != context.offsets or context.largest.bit_length() > EXACT_BITS:
        return None
    return context


def _dense_ids(fused: CellTable, cells: torch.Tensor) -> dict[str, torch.Tensor]:
    """What the shifts of dense attention make of these cells (tokens, features). Those of sparse
    attention have other names, and depend on a route that the look-up does not know."""
    features = cells.shape[1]
    context = contextual_of(fused, features)
    if context is None:
        return {}
    sequence = cells @ torch.tensor(context.digits[:features])
    final = context.final_ids(sequence[None])[0]
    swept = final - context.global_shift * (final.max() // (1 + context.global_shift))
    return {
        "selective shifts": swept.double()[:, None] / fused.steps,
        "global shift": final.double()[:, None] / fused.steps,
    }
