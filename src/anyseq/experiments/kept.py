"""Results kept without their runs: only a results.json."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

from anyseq.errors import FileProblem
from anyseq.experiments.catalogue import EXPERIMENTS
from anyseq.experiments.experiment import SCALES
from anyseq.experiments.table import Row, Table

_FIELDS = {"experiment", "scale", "setting", "seed", "metric", "value"}


def kept_tables(out: Path) -> list[Table]:
    """The tables of the rows in results.json; none if there is no such file."""
    file = out / "results.json"
    if not file.exists():
        return []
    try:
        rows: list[Row] = json.loads(file.read_text(encoding="utf-8"))
        if not all(set(row) == _FIELDS for row in rows):
            raise ValueError(f"expected rows of {', '.join(sorted(_FIELDS))}")
    except (OSError, ValueError, TypeError) as problem:
        raise FileProblem(f"{str(file)!r} cannot be read: {problem}") from problem
    found = []
    for name, scale in product(EXPERIMENTS, SCALES):
        mine = [row for row in rows if (row["experiment"], row["scale"]) == (name, scale)]
        if mine:
            found.append(Table(name, scale, mine))
    return found
