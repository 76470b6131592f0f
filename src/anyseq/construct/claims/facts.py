"""What a certificate claims as facts for `anyseq.verify`, which knows of no method."""

from __future__ import annotations

from anyseq.construct.claims.claim import Claim
from anyseq.construct.network.memory import MemoryShape
from anyseq.construct.tables.fused import CellTable, Fused
from anyseq.construct.tables.fused_adaptive import HatTable
from anyseq.construct.tables.fused_cells import Quantised
from anyseq.construct.tables.fused_ridges import RidgeTable
from anyseq.nn import Stack
from anyseq.verify import Facts, Ramps

_PARTS = {"gather": "simplices", "yun": "cells", "boltzmann": "cells", "sum": "grids",
          "partition": "centres"}  # fmt: skip


def facts_of(claim: Claim, network: Stack, look_up: Fused) -> Facts:
    """The parts of T are those of the method, or, where it has several forms, of its table."""
    parts = _PARTS.get(claim.method, claim.method)
    if parts == "simplices":
        parts = {HatTable: "boxes", RidgeTable: "ridges"}.get(type(look_up), parts)
    rows, alone = "sequences", not claim.positions
    if claim.method == "yun" and alone:
        rows = "sets"
    elif claim.method == "sum" or (claim.method == "boltzmann" and claim.dense and alone):
        rows = "multisets"
    shape, memory = network.shape, None
    if isinstance(shape, MemoryShape):
        memory = (shape.slots_at, shape.values_at)
    told = {
        name: getattr(claim, name) for name in Facts.__dataclass_fields__ if hasattr(claim, name)
    }
    return Facts(
        **told,
        parts=parts,
        rows=rows,
        starts=look_up.offsets if isinstance(look_up, CellTable) else None,
        ramps=_ramps(look_up) if isinstance(look_up, CellTable | Quantised) else None,
        memory=memory,
    )


def _ramps(look_up: CellTable | Quantised) -> Ramps:
    """Every cell of the first ends in a ramp, and x in an end; the last one of the others in
    none."""
    if isinstance(look_up, CellTable):
        last = min(look_up.end, 1 - look_up.ramp)
        return Ramps(look_up.ramp, last, look_up.ramp * look_up.steps + max(0.0, 1 - look_up.end))
    return Ramps(look_up.ramp, 1.0, look_up.ramp * (look_up.steps - 1))
