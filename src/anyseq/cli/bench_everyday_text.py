"""What `anyseq bench everyday` prints."""

from __future__ import annotations

from typing import Any

from anyseq.base import table
from anyseq.cli.bench_text import time


def everyday_text(figures: dict[str, Any]) -> str:
    parts = (_halves, _padding, _images, _exported, _compiled)
    return "\n\n".join(part(figures) for part in parts)


def _halves(figures: dict[str, Any]) -> str:
    rows = [
        (
            f"{_shape(row)}, {row['dtype']}",
            time(row["seconds"]),
            f"{row['to_float32']:.2f} x",
            time(row["dense_seconds"]),
            f"{row['dense_to_float32']:.2f} x",
        )
        for row in figures["halves"]
    ]
    head = ("training step, window", "anyseq", "to float32", "SDPA, dense", "to float32")
    return table(head, rows)


def _padding(figures: dict[str, Any]) -> str:
    rows = []
    for row in figures["padding"]:
        cells = [_shape(row)]
        for kind in ("seconds", "forward_seconds"):
            ours, theirs = row[kind]["anyseq"], row[kind]["SDPA"]
            cells += [time(ours), f"{ours / theirs:.2f} x"]
        rows.append(tuple(cells))
    return table(("padded keys", "training", "to SDPA", "forward", "to SDPA"), rows)


def _images(figures: dict[str, Any]) -> str:
    rows = []
    for row in figures["images"]:
        ours, theirs = row["seconds"]["anyseq"], row["seconds"]["SDPA, bool mask"]
        name = row["pattern"].split("(")[0]
        rows.append((f"{name}, {_shape(row)}", time(ours), time(theirs), f"{theirs / ours:.1f} x"))
    return table(("training step, images", "anyseq", "SDPA, mask", "faster"), rows)


def _exported(figures: dict[str, Any]) -> str:
    found = figures["exported"]
    rows = [(name, time(taken)) for name, taken in found["seconds"].items()]
    return table((f"layer, {found['tokens']:,} tokens, {found['pattern']}", "forward"), rows)


def _compiled(figures: dict[str, Any]) -> str:
    rows = [(row["what"], time(row["seconds"]), str(row["graphs"])) for row in figures["compiled"]]
    if not rows:
        return "torch.compile: there is no C++ compiler here"
    layers = figures["compiled"][0]["layers"]
    return table((f"torch.compile, layers: {layers}", "first step", "graphs"), rows)


def _shape(row: dict[str, Any]) -> str:
    batch, heads, tokens = row["shape"]
    return f"{batch} x {heads} heads x {tokens:,}"
