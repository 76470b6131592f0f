"""Every type of model that transformers has, with `anyseq.hf.use`: `make hf-types` writes the table
of docs/hf.md and docs/hf.json.

Of each a small copy is built from the default config. Either it computes what it does with eager or
torch's attention, and something else where tokens see only themselves, or `use` refuses it by name.
"""

from __future__ import annotations

import json
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import CONFIG_MAPPING, PreTrainedModel

import anyseq as aq
from anyseq.errors import AnyseqError, UnsupportedModel
from anyseq.hf.feed import Feed, feeds, tokens
from anyseq.models.small import small
from zoo import COMPLETED, visited

DOCS = Path(__file__).parent.parent / "docs"
WORKS, PLAIN, REFUSED, NOT_BUILT, NOT_RUN, WRONG = (
    "works",
    "works without a pattern",
    "refused",
    "cannot be built from its config",
    "does not run on its main input alone",
    "wrong",
)
LENGTH = 12
TOLERANCE = 1e-4  # of the largest output: some models take their softmax in float32


def look(kind: str) -> dict[str, Any]:
    """One type: what came of it."""
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    row: dict[str, Any] = {"type": kind}
    try:
        model = small(CONFIG_MAPPING[kind](**COMPLETED.get(kind, {}))).model
    except Exception as problem:
        return row | {"outcome": NOT_BUILT, "reason": _line(problem)}
    row["name"] = type(model).__name__
    found = _runs(model)
    if isinstance(found, str):
        return row | {"outcome": NOT_RUN, "reason": found}
    feed, *peers = found
    row["reads"] = sorted(feed.names)
    try:
        plain = _run(aq.hf.use(model).eval(), feed)
    except UnsupportedModel as refusal:
        named = row["name"] in str(refusal)
        return row | {"outcome": REFUSED if named else WRONG, "reason": _line(refusal)}
    except AnyseqError as problem:
        return row | {"outcome": REFUSED, "reason": _line(problem)}
    except Exception as problem:
        return row | {"outcome": WRONG, "reason": f"{type(problem).__name__}: {_line(problem)}"}
    size = float(plain.abs().max())
    apart = min(float((plain - peer).abs().max()) / size for peer in peers)
    row["apart"] = apart
    if not apart <= TOLERANCE:
        return row | {"outcome": WRONG, "reason": f"{apart:.1e} from eager"}
    try:
        acts = _acts(model, feed)
    except UnsupportedModel as refusal:
        return row | {"outcome": PLAIN, "reason": _line(refusal)}
    except Exception as problem:
        return row | {"outcome": WRONG, "reason": f"{type(problem).__name__}: {_line(problem)}"}
    if not acts:
        return row | {"outcome": WRONG, "reason": "a pattern changes nothing"}
    return row | {"outcome": WORKS}


def _runs(model: PreTrainedModel) -> list[Any] | str:
    """What it can be run on, and what it gives then, with eager attention and with torch's; or why
    it cannot."""
    said = f"it reads {model.base_model.main_input_name}"
    for feed in feeds(model):
        try:
            found = [feed, _run(model, feed)]
        except Exception as problem:
            said = _line(problem)
            continue
        with suppress(Exception):  # not every model has it, and eager remains
            model.set_attn_implementation("sdpa")
            found.append(_run(model, feed))
        model.set_attn_implementation("eager")
        return found
    return said


def _run(model: PreTrainedModel, feed: Feed) -> torch.Tensor:
    """The first tensor of its output."""
    read, written = tokens(model, LENGTH)[None], tokens(model, LENGTH + 1)[None]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        out = model.base_model(**feed.inputs(read, written, None))
    values = list(out.values()) if hasattr(out, "values") else list(out)
    return next(value for value in values if isinstance(value, torch.Tensor) and value.numel() > 1)


def _acts(model: PreTrainedModel, feed: Feed) -> bool:
    """Whether attention gives something else where tokens see only themselves. Of the layers, since
    deep models with random weights forget what came in."""
    outs = []
    for pattern in (None, lambda b, h, i, j: i == j):
        attachment: Any = aq.hf.use(model, pattern).eval().anyseq_attachment
        attachment.record = []
        _run(model, feed)
        outs.append([seen.out for seen in attachment.record])
        attachment.record = None
    return any((one - other).abs().max() > 1e-3 for one, other in zip(*outs, strict=True))


def _line(problem: BaseException) -> str:
    return " ".join(str(problem).split())[:300]


def table(rows: list[dict[str, Any]]) -> str:
    """The lines for docs/hf.md."""
    counts = {
        outcome: sum(row["outcome"] == outcome for row in rows)
        for outcome in (WORKS, PLAIN, REFUSED, WRONG, NOT_RUN, NOT_BUILT)
    }
    lines = ["| outcome | types |", "|---|---|"]
    lines += [f"| {outcome} | {count} |" for outcome, count in counts.items() if count]
    for main in ("input_ids", "pixel_values", "input_features", "input_values"):
        works = [row["type"] for row in rows if row["outcome"] == WORKS and main in row["reads"]]
        if works:
            lines += ["", f"**Work**, reading `{main}`: {', '.join(works)}."]
    for outcome in (PLAIN, REFUSED, WRONG):
        some = [f"| {row['type']} | {_reason(row)} |" for row in rows if row["outcome"] == outcome]
        if some:
            lines += ["", f"| {outcome} | why |", "|---|---|", *some]
    return "\n".join(lines) + "\n"


def _reason(row: dict[str, Any]) -> str:
    said = str(row["reason"]).replace("|", "/").replace("<", "(").replace(">", ")")
    short = said.removeprefix(f"{row['name']}: ").removeprefix(f"{row['name']} ")
    return short.split("; choose a model")[0].split(", so a pattern or gain")[0]


def main() -> None:
    torch.set_num_threads(1)
    file, page = DOCS / "hf.json", DOCS / "hf.md"
    rows = {row["type"]: row for row in visited(sys.argv[1:] or sorted(CONFIG_MAPPING), look)}
    if sys.argv[1:]:  # some again, the others as they were
        rows = {row["type"]: row for row in json.loads(file.read_text())["rows"]} | rows
    found = [rows[kind] for kind in sorted(rows)]
    said = {"transformers": transformers.__version__, "rows": found}
    file.write_text(json.dumps(said, indent=1) + "\n")
    before, mark, rest = page.read_text().partition("<!-- types -->\n")
    _, end, after = rest.partition("<!-- end -->")
    page.write_text(f"{before}{mark}{table(found)}{end}{after}")


if __name__ == "__main__":
    main()
