"""docs/hf.md runs as it stands, and its table says what docs/hf.json does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hf_types import PLAIN, REFUSED, WORKS, WRONG, look, table

pytest.importorskip("peft")

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "hf.md").read_text()


def test_the_page_runs_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec("\n".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)), {})
    differs, tokens, saved, gain = capsys.readouterr().out.splitlines()
    assert float(differs.removeprefix("differs by ")) < 1e-5
    assert tokens == "the same tokens: True"
    assert saved == "LlamaForCausalLM True"
    assert "anyseq_gain" in gain


def test_the_table_is_that_of_the_figures() -> None:
    rows = json.loads((DOCS / "hf.json").read_text())["rows"]
    assert table(rows) in PAGE
    outcomes = {row["type"]: row["outcome"] for row in rows}
    assert WRONG not in outcomes.values()
    for kind in ("bert", "llama", "gemma3_text", "modernbert", "gpt_oss", "vit", "whisper"):
        assert outcomes[kind] == WORKS


SOME = {
    "llama": WORKS,
    "modernbert": WORKS,
    "gpt2": WORKS,
    "vit": WORKS,
    "dinov2": WORKS,
    "whisper": WORKS,
    "wav2vec2": WORKS,
    "siglip_vision_model": WORKS,
    "qwen3_next": PLAIN,
    "bloom": REFUSED,
    "mpt": REFUSED,
    "falcon": REFUSED,
    "gptj": REFUSED,
    "codegen": REFUSED,
    "mamba": REFUSED,
}


@pytest.mark.parametrize("kind", SOME)
@pytest.mark.filterwarnings("ignore")  # of transformers' own
def test_some_types_again(kind: str) -> None:
    row = look(kind)
    assert row["outcome"] == SOME[kind], row.get("reason")
    if row["outcome"] != WORKS:
        assert row["name"] in row["reason"]
