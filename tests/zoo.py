"""Every type of config that transformers has, read: `make zoo` writes docs/zoo.json and zoo.md.

Each is read from its default config, with what it lacks (`COMPLETED`), at 16 tokens. Another
small copy, with other weights and wider windows, must do what the Design says, layer by layer.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import CONFIG_MAPPING, PreTrainedConfig
from transformers.models.auto import modeling_auto

from anyseq.design import USUAL_TOKENS
from anyseq.errors import AnyseqError
from anyseq.models import Reading
from anyseq.models.configs import text_part
from anyseq.models.families import BY_HAND
from anyseq.models.read_config import copied, read_config
from anyseq.models.small import model_class
from anyseq.verdicts import describe

DOCS = Path(__file__).parent.parent / "docs"
SECONDS = 90
MEMORY = 12 << 30

INDEXER = {
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 256,
    "indexer_budget": 2048,
    "indexer_compress_ratio": 4,
}
COMPLETED: dict[str, dict[str, Any]] = {
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "xmod": {"default_language": "en_XX"},
    "cohere_compass_text": {
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": 10_000.0}
            for kind in ("full_attention", "sliding_attention")
        }
    },
    "qwen4_exp_text": INDEXER,
    "qwen4_exp": {"text_config": INDEXER},
    "gemma4_assistant": {
        "text_config": {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0}
    },
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

OTHER_INPUTS = (
    "transformers has no model",
    "required positional argument",
    "unexpected keyword argument 'input_ids'",
    "have to specify",
)
"""What is said of models that do not read token ids, or not alone."""

READ, WRONG, NO_TEXT, NOT_BUILT, NOT_UNDERSTOOD = (
    "read",
    "wrong",
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
        reading = read_config(config, USUAL_TOKENS)
    except AnyseqError as problem:
        said = str(problem)
        if kind not in denominator() and any(words in said for words in OTHER_INPUTS):
            return row | {"outcome": NO_TEXT, "reason": _line(problem)}
        built = "no small copy" not in said and "even a small copy" not in said
        return row | {"outcome": NOT_UNDERSTOOD if built else NOT_BUILT, "reason": _line(problem)}
    row["subject"] = reading.subject
    row["facts"] = [f"{fact.source}: {fact.says}" for fact in reading.facts]
    row["unknown"] = list(reading.unknown)
    row["seconds"] = round(time.perf_counter() - start, 1)
    if reading.design is None:
        return row | {"outcome": NOT_UNDERSTOOD, "reason": reading.unknown[0]}
    row["layers"] = describe(reading.design).split(" tokens, ", 1)[1]
    wrong = disagreement(text, reading)
    if wrong is not None:
        return row | {"outcome": WRONG, "reason": wrong}
    return row | {"outcome": READ, "design": reading.design.to_dict()}


def disagreement(config: PreTrainedConfig, reading: Reading) -> str | None:
    """What another small copy, with other weights and wider windows, does that the Design does not
    say: who depends on whom, by its gradients, layer by layer."""
    _, (stack, *_) = copied(config, wider=2)
    if config.model_type in BY_HAND:
        stack = BY_HAND[config.model_type](config, stack, reading.tokens)
    design = reading.design
    assert design is not None
    cycle = design.layer_cycle
    if design.depth != len(stack.layers):
        return f"{len(stack.layers)} layers instead of {design.depth}"
    for number, seen in enumerate(stack.layers):
        said = cycle[number % len(cycle)].sees
        found = None if seen.pattern is None else seen.pattern.real
        if found != said:
            return f"layer {number + 1}: {found} instead of {said}"
    return None


def _line(problem: BaseException) -> str:
    return " ".join(str(problem).split())[:200]


def _send(kind: str, look: Callable[[str], dict[str, Any]], pipe: Any) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        pipe.send(look(kind))
    except BaseException as problem:
        pipe.send({"type": kind, "language model": kind in denominator(),
                   "outcome": NOT_UNDERSTOOD,
                   "reason": f"{type(problem).__name__}: {_line(problem)}"})  # fmt: skip


def visited(
    kinds: list[str], look: Callable[[str], dict[str, Any]] = visit
) -> list[dict[str, Any]]:
    """What `look` finds of all of them, each in a process of its own, so that none takes the others
    along; two at a time."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda kind: _alone(kind, look), kinds))


def _alone(kind: str, look: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    context = get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_send, args=(kind, look, there))
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
    sys.stderr.write(f"{kind}: {row['outcome']} {row.get('reason', '')}\n")
    return row


def page(found: dict[str, Any]) -> str:
    """The table of docs/zoo.md."""
    rows = found["rows"]
    models = [row for row in rows if row["language model"]]
    lines = [
        "# The zoo",
        "",
        "Every type of config that transformers has, read by `anyseq.read` at 16 tokens: a small "
        "copy is built from the default config, with random weights, and run on the CPU. `make "
        "zoo` makes this page and `zoo.json`, which holds every fact.",
        "",
        f"transformers {found['transformers']}: {len(rows)} types.",
        "",
        "| outcome | types | of those for language models |",
        "|---|---|---|",
    ]
    for outcome in (READ, WRONG, NOT_UNDERSTOOD, NOT_BUILT, NO_TEXT):
        both = (sum(row["outcome"] == outcome for row in some) for some in (rows, models))
        lines.append("| {} | {} | {} |".format(outcome, *both))
    lines += [
        "",
        f"Language models are the {len(models)} types in the mappings of transformers for causal, "
        "masked and sequence-to-sequence language models. Of an encoder-decoder the design is the "
        "encoder's, and the facts are about both. *seen* counts the facts that the config does "
        "not declare and that were not compared with the source: a verdict lists them in "
        "`verdict.assumes`. *beyond a Design* is what no Design describes; it prevents a verdict "
        "of yes.",
        "",
        "## Read",
        "",
        "| type | layers | seen | beyond a Design |",
        "|---|---|---|---|",
    ]
    for row in rows:
        if row["outcome"] == READ:
            seen = sum(fact.startswith("seen: ") for fact in row["facts"])
            unknown = "; ".join(row["unknown"])
            lines.append(f"| {row['type']} | {row['layers']} | {seen or ''} | {unknown} |")
    for outcome in (NOT_UNDERSTOOD, NOT_BUILT):
        lines += ["", f"## {outcome.capitalize()}", "", "| type | why |", "|---|---|"]
        for row in rows:
            if row["outcome"] == outcome:
                lines.append(f"| {row['type']} | {_cell(row['reason'])} |")
    other = ", ".join(row["type"] for row in rows if row["outcome"] == NO_TEXT)
    lines += ["", f"## {NO_TEXT.capitalize()}", "", f"{other}."]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("<", "(").replace(">", ")")


def main() -> None:
    torch.set_num_threads(1)
    kinds = sorted(CONFIG_MAPPING)
    if sys.argv[1:]:  # some again, the others as they were
        kinds = sys.argv[1:]
    rows = {row["type"]: row for row in visited(kinds)}
    file = DOCS / "zoo.json"
    if sys.argv[1:]:
        rows = {row["type"]: row for row in json.loads(file.read_text())["rows"]} | rows
    found = {
        "transformers": transformers.__version__,
        "rows": [rows[kind] for kind in sorted(rows)],
    }
    file.write_text(json.dumps(found, indent=1) + "\n")
    (DOCS / "zoo.md").write_text(page(found))


if __name__ == "__main__":
    main()
