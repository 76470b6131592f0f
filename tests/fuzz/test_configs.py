"""Hostile configs: a verdict, or an error of ours; no code of theirs runs."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyseq as aq
from anyseq.errors import AnyseqError

CONFIGS = 40
SECONDS = 60
KINDS = ("llama", "bert", "t5", "gpt2", "gemma3", "mistral", "bloom", "longformer", "qwen2", "x")
KEYS = (
    "num_hidden_layers", "n_layer", "hidden_size", "num_attention_heads", "max_position_embeddings",
    "sliding_window", "layer_types", "rope_parameters", "rope_theta", "vocab_size", "is_decoder",
    "is_encoder_decoder", "is_causal", "text_config", "auto_map", "attention_window", "num_layers",
    "relative_attention_num_buckets", "relative_attention_max_distance", "alibi", "anyseq",
    "attn_implementation", "position_embedding_type", "architectures", "dtype", "model_type",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, 3, -1, 12, 10**9, 10**19, 1.5, 1e308, "", "x", "rotary", [], [1, 2],
    ["full_attention", "sliding_attention"], ["full_attention"] * 3, {}, {"rope_theta": 0},
    {"rope_type": "default", "rope_theta": 1.0}, {"AutoModel": "evil.Model"}, "../../etc/passwd",
    {"model_type": "llama"},
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With code and a pickle beside the config, either of which would leave a mark."""
    mark = tmp_path / "mark"
    (tmp_path / "evil.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    (tmp_path / "modeling_evil.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    (tmp_path / "pytorch_model.bin").write_bytes(
        b"cposix\nsystem\n(S'touch " + str(mark).encode() + b"'\ntR."
    )
    return tmp_path


@pytest.mark.filterwarnings("ignore")  # transformers warns of what it reads
def test_configs_are_read_and_nothing_else(folder: Path, soak: int) -> None:
    answers = 0
    for number in range(CONFIGS * soak):
        rng = np.random.default_rng([7, number])
        file = folder / "config.json"
        file.write_text(text(rng))
        start = time.monotonic()
        with suppress(AnyseqError):
            verdict = aq.check(file, tokens=int(rng.choice([4, 16, 64])), seconds=5)
            answers += "equivariant" in verdict.table()
        assert time.monotonic() - start < SECONDS, number
    assert answers
    assert not (folder / "mark").exists()


def text(rng: np.random.Generator) -> str:
    if rng.random() < 0.1:
        hostile = ["[" * 3000, '{"model_type":' * 900, '{"model_type": ' + "9" * 5000 + "}", "null"]
        return str(rng.choice([*hostile, "{", "", "[]", "\x00", '{"model_type": NaN}', "1e999"]))
    facts: dict[str, Any] = {"model_type": str(rng.choice(KINDS)), "num_hidden_layers": 2}
    for _ in range(rng.integers(0, 4)):
        facts[KEYS[rng.integers(len(KEYS))]] = VALUES[rng.integers(len(VALUES))]
    return json.dumps(facts)
