"""The results of the runs beside the papers' numbers, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from anyseq.experiments.catalogue import EXPERIMENTS
from anyseq.experiments.table import SPEEDS, Summary, Table


def report_text(tables: Sequence[Table]) -> str:
    """A section for each table."""
    return "\n".join(map(table_text, tables))


def table_text(table: Table) -> str:
    """The claim, the judgement, and a row for each setting: the metric that the claim is about with
    mean ± standard deviation over seeds, the paper's number, then everything else but speeds."""
    experiment = EXPERIMENTS[table.experiment]
    main = experiment.metric.name
    others = [metric for metric in table.metrics if metric not in (main, *SPEEDS)]
    head = ("setting", main, f"paper {experiment.paper}", "seeds", *others)
    rows = [head, ("---", *["---:"] * (len(head) - 1))]
    for setting in table.settings:
        found = table.summary(setting, main)
        seen = [table.summary(setting, metric) for metric in table.metrics]
        published = experiment.published.get(setting)
        rows.append(
            (
                setting,
                _number(found, places=3),
                "" if published is None else f"{published:.3f}",
                str(max(one.seeds for one in seen if one is not None)),
                *(_number(table.summary(setting, metric)) for metric in others),
            )
        )
    word, reason = experiment.judge(table)
    lines = [
        f"## {table.experiment}, {table.scale}",
        "",
        f"Paper {experiment.paper} claims: {experiment.claim} {experiment.note}".rstrip(),
        "",
        f"**{word}**: {reason}.",
        "",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
    if count := len(table.left_out):
        runs = "1 run" if count == 1 else f"{count} runs"
        verb = "is" if count == 1 else "are"
        which = "; ".join(table.left_out)
        lines += ["", f"{runs} of another configuration {verb} left out: {which}."]
    if said := _circumstances(table):
        lines += ["", said]
    return "\n".join(lines) + "\n"


def _circumstances(table: Table) -> str:
    """How the runs were made: everything that differs between them, and how far."""
    made = [sitting for record in table.records for sitting in record.sittings]
    if not made:
        return ""

    def each(name: str) -> str:
        return ", ".join(sorted({str(one[name]) for one in made}))

    loads = [one["load"] for one in made if one["load"] is not None]
    minutes = [sum(one["seconds"] for one in record.sittings) / 60 for record in table.records]
    runs, recorded = len({(row["setting"], row["seed"]) for row in table.rows}), len(table.records)
    which = "Made" if recorded == runs else f"{recorded} of {runs} runs have a record: made"
    parts = [
        f"{which} at commit {each('commit')} with torch {each('torch')}",
        f"threads of a run: {each('threads')}",
        f"mixed precision: {each('precision')}",
        f"cores: {each('cores')}",
        f"minutes of a run: {_range(minutes)}",
    ]
    if loads:
        parts.append(f"processes that wanted a core, with the run itself: {_range(loads)}")
    return "; ".join(parts) + "."


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    return low if low == high else f"{low} to {high}"


def _number(found: Summary | None, places: int | None = None) -> str:
    """Fixed places, or three digits that count."""
    if found is None:
        return ""
    shape = ".3g" if places is None else f".{places}f"
    return f"{found.mean:{shape}}" + ("" if found.spread is None else f" ± {found.spread:{shape}}")
