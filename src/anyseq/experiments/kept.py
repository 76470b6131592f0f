"""Results kept without their runs: results.json has the metrics, records.json the curves and how
the runs were made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from anyseq.base import write_text
from anyseq.errors import FileProblem
from anyseq.experiments.catalogue import EXPERIMENTS
from anyseq.experiments.experiment import SCALES
from anyseq.experiments.record import Record
from anyseq.experiments.table import SPEEDS, Row, Table

_RESULTS, _RECORDS = "results.json", "records.json"
_PLACE = ("experiment", "scale")
_ROW = {*_PLACE, "setting", "seed", "metric", "value"}
_RECORD = {*_PLACE, "setting", "seed", "sittings", "curve"}


def kept_tables(out: Path) -> list[Table]:
    """The tables of the rows in results.json; none if there is no such file."""
    rows, records = _read(out / _RESULTS, _ROW), _read(out / _RECORDS, _RECORD)
    found = []
    for place in product(EXPERIMENTS, SCALES):
        mine = [row for row in rows if (row["experiment"], row["scale"]) == place]
        known = [
            Record(**{name: one[name] for name in one if name not in _PLACE})
            for one in records
            if (one["experiment"], one["scale"]) == place
        ]
        if mine:
            found.append(Table(*place, mine, records=known))
    return found


def write_kept(out: Path, tables: Sequence[Table]) -> None:
    """Write both files of a folder."""
    rows: list[Row] = [row for table in tables for row in table.rows]
    records = [
        {"experiment": table.experiment, "scale": table.scale} | record.as_dict()
        for table in tables
        for record in table.records
    ]
    for file, lines in ((_RESULTS, rows), (_RECORDS, records)):
        text = ",\n ".join(json.dumps(line, allow_nan=False) for line in lines)
        write_text(out / file, f"[{text}]\n")


def keep(tables: Sequence[Table], out: Path) -> list[Table]:
    """Put results into a folder of kept ones, in place of the same seeds of the same settings: all
    tables of the folder. Without speeds. Where a setting has changed, its other seeds must be run
    again, too."""
    kept = {(table.experiment, table.scale): table for table in kept_tables(out)}
    for table in tables:
        place = (table.experiment, table.scale)
        before = kept.get(place, Table(*place, []))
        new = {(row["setting"], row["seed"]) for row in table.rows}
        rows = [row for row in before.rows if (row["setting"], row["seed"]) not in new]
        records = [one for one in before.records if (one.setting, one.seed) not in new]
        rows += [row for row in table.rows if row["metric"] not in SPEEDS]
        kept[place] = replace(before, rows=rows, records=[*records, *table.records])
    found = [kept[place] for place in product(EXPERIMENTS, SCALES) if place in kept]
    write_kept(out, found)
    return found


def _read(file: Path, fields: set[str]) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    try:
        found: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
        if not all(isinstance(one, Mapping) and set(one) == fields for one in found):
            raise ValueError(f"expected objects with {', '.join(sorted(fields))}")
    except (OSError, ValueError, TypeError) as problem:
        raise FileProblem(f"{str(file)!r} cannot be read: {problem}") from problem
    return found
