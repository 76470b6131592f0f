"""Method "yun": the ids are checked, f is evaluated, and the layers are put together."""

from __future__ import annotations

import torch

from anyseq.base import Progress
from anyseq.construct.contextual.sparse import SparseContextual
from anyseq.construct.counting.lattice import strides
from anyseq.construct.gadgets import (
    CONSTANT,
    banish,
    clip,
    deciding_gap,
    erase,
    quantise,
    rescale,
    rescaled,
    value_map,
    written,
)
from anyseq.construct.methods.recipe import Construction
from anyseq.construct.methods.yun.gain import muted, shared_ones, shares_gain
from anyseq.construct.methods.yun.shifts import dense_shifts, sparse_shifts
from anyseq.construct.methods.yun.sizes import YunSizes
from anyseq.construct.methods.yun.stages import stages
from anyseq.construct.methods.yun.windows import Windows
from anyseq.construct.request.target import Target
from anyseq.construct.tables.fused import CellTable
from anyseq.errors import ConstructionFault
from anyseq.nn import Layers, Stack


def build(recipe: YunSizes, target: Target, progress: Progress) -> Construction:
    """The network for f, and its look-up form."""
    context, ask, windows = recipe.context, recipe.ask, recipe.windows
    sequences = context.sequences()
    progress("check the contextual mapping", 0, len(sequences))
    ids = context.final_ids(sequences)
    distinct, gap = context.check(sequences, ids)
    sequences, ids = sequences[distinct], ids[distinct]
    if len(sequences) != recipe.cells:
        raise ConstructionFault(f"{len(sequences)} sequences, expected {recipe.cells}")
    _check_positions(recipe)
    progress("check the contextual mapping", len(ids), len(ids))

    digit = torch.tensor(recipe.digits)
    coordinates = sequences[:, :, None] // digit[: ask.features] % context.steps
    centres = (coordinates.double() + 0.5) * recipe.step
    wanted = torch.zeros(*ids.shape, recipe.width, dtype=torch.float64)
    wanted[:, :, : ask.out_features] = target(centres, progress, "evaluate f at the cells' centres")

    # The token in the network: quantised entries plus E, feature 0 so that u·z is the id.
    real_ids = (ids + windows.lift).double() * recipe.step
    low, high = float(real_ids.min()), float(real_ids.max())
    current = recipe.position.repeat(len(ids), 1, 1)
    current[:, :, : ask.features] += coordinates.double() * recipe.step
    others = current[:, :, 1:] @ digit[1:].double()
    real_ids = rescaled(real_ids, windows.scale)
    current[:, :, 0] = real_ids - others
    _check_windows(real_ids, windows)

    values = written(current, wanted)[:, :, : ask.out_features]
    keys = sequences @ torch.tensor(strides(context.token_cells, ask.design.tokens))
    fused = CellTable(
        context.steps, recipe.ramp, recipe.end, recipe.positions, values, keys, context.offsets
    )
    bound = float(values.abs().max())

    def model() -> Stack:
        runs = _before_values(recipe, low, high)
        runs.append(
            value_map(
                ids=real_ids.flatten(),
                current=current.flatten(0, 1),
                targets=wanted.flatten(0, 1),
                half_width=windows.half_width,
                digits=recipe.digits,
            )
        )
        runs.append(clip(features=ask.out_features, width=recipe.width, bound=bound))
        return _stack(recipe, runs, ask.out_features)

    largest = float(wanted.abs().max())
    checked = {"smallest id gap": f"{gap:,} δ"}
    return Construction(fused, model, largest, checked, stages(recipe))


def _stack(recipe: YunSizes, runs: list[Layers], out_features: int) -> Stack:
    """The network of these layers, positions before them."""
    design, gain = recipe.ask.design, recipe.gain
    constant = torch.zeros(recipe.width, dtype=torch.float64)
    constant[-1] = CONSTANT
    first = (
        gain.layers(features=recipe.features, width=recipe.width, at=recipe.width - 1)
        if gain
        else []
    )
    table = gain.table if gain else shared_ones(design)
    return Stack.of(
        design,
        [*first, *muted(runs, design)],
        in_features=recipe.ask.features,
        out_features=out_features,
        position=recipe.position if recipe.positions and not gain else None,
        constant=constant if gain else None,
        gain=table if shares_gain(design) else None,
    )


def _before_values(recipe: YunSizes, low: float, high: float) -> list[Layers]:
    """All layers from X + E to the value map; good ids lie in [low, high]."""
    context, features = recipe.context, recipe.ask.features
    step, width, digits = recipe.step, recipe.width, recipe.digits
    runs = []
    if not recipe.positions:
        # banish rounds at the size of the entries: first make them small
        runs.append(clip(features=features, width=width, bound=2.0))
        runs.append(banish(features=features, width=width, depth=recipe.depth))
    cells, ramp = recipe.quantised_cells, recipe.ramp
    runs.append(quantise(features=features, width=width, cells=cells, step=step, ramp=ramp))
    gap, lift = deciding_gap(recipe.ask.design.probability), recipe.windows.lift * step
    if isinstance(context, SparseContextual):
        runs += sparse_shifts(context, step=step, digits=digits, gap=gap, lift=lift)
    else:
        runs += dense_shifts(context, step=step, digits=digits, gap=gap, lift=lift)
    if not recipe.positions:
        slack = (recipe.depth + 1) * sum(digits)
        runs.append(erase(low=low, high=high, slack=slack, step=step, digits=digits))
    runs.append(rescale(scale=recipe.windows.scale, digits=digits))
    return runs


def _check_positions(recipe: YunSizes) -> None:
    """The gain's output on zero input must be E, to the bit."""
    if recipe.gain is None:
        return
    nothing = torch.zeros(1, recipe.ask.design.tokens, recipe.ask.features, dtype=torch.float64)
    with torch.no_grad():
        made = _stack(recipe, [], recipe.width)(nothing)[0]
    if not torch.equal(made, recipe.position):
        raise ConstructionFault(f"the gain gives positions {made.tolist()}")


def _check_windows(ids: torch.Tensor, windows: Windows) -> None:
    """The windows of the value map must not touch one another, nor any target."""
    ascending, half_width = ids.flatten().sort().values, windows.half_width
    touching = bool((ascending.diff() < 2 * half_width).any())
    if touching or float(ascending[0]) - half_width < windows.ceiling:
        raise ConstructionFault(f"value windows of half width {half_width:g} overlap")
