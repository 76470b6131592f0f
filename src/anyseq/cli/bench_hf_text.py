"""What `anyseq bench hf` prints."""

from __future__ import annotations

from itertools import groupby
from textwrap import fill
from typing import Any

from anyseq.base import table


def hf_text(figures: dict[str, Any]) -> str:
    """Per model and length: ours, then how many times as long, and as much, others take."""
    cases = groupby(figures["hf"], key=lambda row: (row["model"], row["tokens"]))
    times: list[tuple[str, ...]] = []
    memory: list[tuple[str, ...]] = []
    for (model, tokens), group in cases:
        name, each = f"{model}, {tokens:,}", {row["attention"]: row for row in group}
        times.append((name, *_cells(each, "seconds"), *_cells(each, "beside_seconds")))
        memory.append((name, *_cells(each, "extra_bytes")))
    beside = f"beside {figures['beside']}"
    parts = [
        table(("a training step", "anyseq", "eager", "sdpa", beside, "eager", "sdpa"), times),
        table(("memory at most", "anyseq", "eager", "sdpa"), memory),
        fill(
            f"Batch 1, {figures['threads']} threads. eager and sdpa: transformers' own, as "
            "multiples of anyseq's, quiet and beside busy processes. Memory is what a step takes "
            "on top of the model.",
            80,
        ),
    ]
    return "\n\n".join(parts)


def _cells(each: dict[str, dict[str, Any]], what: str) -> tuple[str, ...]:
    own = each["anyseq"][what]
    if not own:
        return ("-",) * 3
    shown = f"{own:.2f} s" if "seconds" in what else f"{own / 1e6:,.0f} MB"
    others = (each.get(name, {}).get(what) for name in ("eager", "sdpa"))
    return (shown, *("-" if other is None else f"{other / own:.2f} x" for other in others))
