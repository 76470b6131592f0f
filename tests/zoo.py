"""Every type of config that transformers has, read: `make zoo` writes docs/zoo.json and zoo.md.

Each is read from its default config, with what it lacks (`COMPLETED`), at 16 tokens. Two looks at
small copies with windows of other widths must give one Design.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import transformers
from transformers import CONFIG_MAPPING
from transformers.models.auto import modeling_auto

from anyseq.errors import AnyseqError

DOCS = Path(__file__).parent.parent / "docs"
SECONDS = 90
MEMORY = 12 << 30

COMPLETED: dict[str, dict[str, Any]] = {
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "ministral": {"head_dim": 128},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "nemotron": {"head_dim": 128, "num_key_value_heads": 8},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 8},
    "dbrx": {"attn_config": {"kv_n_heads": 8, "rope_theta": 500_000.0, "clip_qkv": 8.0}},
    "deepseek_v2": {"num_experts_per_tok": 6, "n_group": 8, "topk_group": 3},
    "dots1": {"n_routed_experts": 128, "num_experts_per_tok": 6, "n_shared_experts": 2},
}
"""What default configs leave out and published ones say."""

READ, NO_TEXT, NOT_BUILT, NOT_UNDERSTOOD = (
    "read",
    "no text sequence model",
    "cannot be built from its config",
    "not understood",
)


def denominator() -> set[str]:
    """The types of the mappings for causal, masked and sequence-to-sequence language models."""
    return {
        *modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        *modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        *modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    }


def visit(kind: str) -> dict[str, Any]:
    """One type: what came of reading it."""
    from anyseq.models.configs import text_part
    from anyseq.models.read_config import read_config
    from anyseq.models.small import model_class

    start = time.perf_counter()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    row: dict[str, Any] = {"type": kind, "language model": kind in denominator()}
    try:
        config = CONFIG_MAPPING[kind](**COMPLETED.get(kind, {}))
    except Exception as problem:
        return row | {"outcome": NOT_BUILT, "reason": _line(problem)}
    try:
        text = text_part(config)
        takes = model_class(text).main_input_name
        if takes != "input_ids" and kind not in denominator():
            return row | {"outcome": NO_TEXT, "reason": f"it reads {takes}"}
        reading = read_config(config)
    except AnyseqError as problem:
        said = str(problem)
        if "transformers has no model" in said and kind not in denominator():
            return row | {"outcome": NO_TEXT, "reason": "transformers has no model of it by itself"}
        built = "no small copy" not in said and "even a small copy" not in said
        return row | {"outcome": NOT_UNDERSTOOD if built else NOT_BUILT, "reason": _line(problem)}
    row["subject"] = reading.subject
    row["facts"] = [f"{fact.source}: {fact.says}" for fact in reading.facts]
    row["unknown"] = list(reading.unknown)
    row["seconds"] = round(time.perf_counter() - start, 1)
    if reading.design is None:
        return row | {"outcome": NOT_UNDERSTOOD, "reason": reading.unknown[0]}
    return row | {"outcome": READ, "design": reading.design.to_dict()}


def _line(problem: Exception) -> str:
    return " ".join(str(problem).split())[:200]


def _send(kind: str, pipe: Any) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        pipe.send(visit(kind))
    except BaseException as problem:
        pipe.send({"type": kind, "language model": kind in denominator(),
                   "outcome": NOT_UNDERSTOOD,
                   "reason": f"{type(problem).__name__}: {_line(problem)}"})  # fmt: skip


def visited(kinds: list[str]) -> list[dict[str, Any]]:
    """All of them, each in a process of its own, so that none takes the others along."""
    context = get_context("fork")
    rows = []
    for kind in kinds:
        here, there = context.Pipe()
        process = context.Process(target=_send, args=(kind, there))
        process.start()
        there.close()
        try:
            row = here.recv() if here.poll(SECONDS) else None
        except EOFError:
            row = None
        process.kill()
        process.join()
        if row is None:
            row = {"type": kind, "language model": kind in denominator(),
                   "outcome": NOT_UNDERSTOOD, "reason": f"not read in {SECONDS} s"}  # fmt: skip
        rows.append(row)
        sys.stderr.write(f"{kind}: {row['outcome']} {row.get('reason', '')}\n")
    return rows


def main() -> None:
    import torch

    torch.set_num_threads(1)
    kinds = sys.argv[1:] or sorted(CONFIG_MAPPING)
    rows = visited(kinds)
    found = {"transformers": transformers.__version__, "rows": rows}
    (DOCS / "zoo.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
