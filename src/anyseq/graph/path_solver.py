"""Hamiltonian paths with a constraint solver."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from anyseq.graph.edges import Array, Edges

_MOST_EDGES = 1_000_000  # building a larger model takes longer than anybody waits


@dataclass(frozen=True, eq=False)
class Solved:
    """exists: None if the solver could not decide, and then `message` says why."""

    exists: bool | None
    order: Array | None = None
    message: str = ""


def solved(edges: Edges, seconds: float) -> Solved:
    """A circuit through all tokens and one more vertex, which stands for both ends of the path.

    Row i of `edges` lists the tokens that may come right before i.
    """
    if find_spec("ortools") is None:
        return Solved(None, message="a solver may decide this: pip install 'anyseq[solver]'")
    if edges.count > _MOST_EDGES or seconds <= 0:
        return Solved(None, message="not decided in time; give more seconds")
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    ends = edges.size
    before = [*edges.columns.tolist(), *range(ends), *([ends] * ends)]
    after = [*edges.rows().tolist(), *([ends] * ends), *range(ends)]
    arcs = [(u, v, model.new_bool_var("")) for u, v in zip(before, after, strict=True)]
    model.add_circuit(arcs)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return Solved(False)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Solved(None, message=f"not decided in {seconds:.1f} s; give more seconds")
    following = {u: v for u, v, used in arcs if solver.boolean_value(used)}
    order, at = [], following[ends]
    while at != ends:
        order.append(at)
        at = following[at]
    return Solved(True, np.array(order))
