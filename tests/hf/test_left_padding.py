"""Batches padded on the left generate what each sequence generates alone, whatever the pattern."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import anyseq as aq
from hf.plain import build
from hf.test_padding import padded

LENGTHS = (3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)
PATTERNS: dict[str, Any] = {
    "hub": aq.Window(2) | aq.Global((0,)),
    "big bird": aq.BigBird(3, random=0),
    "star": aq.Star(1),
    "fixed": aq.Fixed(4),
    "blocks": aq.Blocks(5),
    "by layer": (aq.Window(2) | aq.Global((0,)), aq.Fixed(3)),
}
GROWING = ["hub", "big bird", "fixed", "blocks", "by layer"]  # what a cache can serve


def generated(model: Any, lengths: tuple[int, ...], **how: Any) -> tuple[list[Any], list[Any]]:
    """The tokens of a batch, and those of each sequence alone."""
    inputs, rows = padded("left", lengths)
    inputs.pop("position_ids")
    how = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0} | how
    together = model.generate(**inputs, **how)[:, max(lengths) :].tolist()
    alone = [
        model.generate(one[None], attention_mask=torch.ones_like(one)[None], **how)[0, len(one) :]
        for one in rows
    ]
    return together, [one.tolist() for one in alone]


@pytest.mark.parametrize("cache", ["dynamic", "static", None])
@pytest.mark.parametrize("name", PATTERNS)
def test_together_as_alone(name: str, cache: str | None) -> None:
    if cache is not None and name not in GROWING:
        pytest.skip("its rows change as the sequence grows, and a cache is refused")
    model = aq.hf.use(build("llama", torch.float64), PATTERNS[name], gain=True).eval()
    with torch.no_grad():  # it depends on i - j only, wherever a sequence begins
        model.anyseq_gain.coefficients.uniform_(
            0.5, 2.0, generator=torch.Generator().manual_seed(3)
        )
    how: dict[str, Any] = {"use_cache": cache is not None}
    if cache is not None:
        how["cache_implementation"] = cache
    together, alone = generated(model, LENGTHS if cache == "dynamic" else LENGTHS[::4], **how)
    assert together == alone


@pytest.mark.parametrize("family", ["mistral", "llama4", "gpt2"])
def test_with_windows_chunks_and_positions_of_the_models_own(family: str) -> None:
    model = aq.hf.use(build(family, torch.float64), PATTERNS["hub"]).eval()
    together, alone = generated(model, (3, 9, 14))
    assert together == alone


def test_with_beams() -> None:
    model = aq.hf.use(build("llama", torch.float64), PATTERNS["hub"]).eval()
    together, alone = generated(model, (4, 9, 13), num_beams=3)
    assert together == alone


def test_padding_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that begin alike share a call, which keeps the pattern: nothing dense is made."""
    calls: list[tuple[int, int, Any]] = []

    def noticed(q: Any, k: Any, v: Any, **arguments: Any) -> Any:
        calls.append((len(q), q.shape[2], arguments["pattern"]))
        return aq.attention(q, k, v, **arguments)

    model = aq.hf.use(build("llama", torch.float64), {0: PATTERNS["hub"]}).eval()
    inputs, _ = padded("left", (12, 7, 4, 7))
    monkeypatch.setattr("anyseq.hf.attend.attention", noticed)
    model(**inputs, use_cache=False)
    assert sorted(calls[:3], key=lambda call: call[1]) == [
        (1, 4, PATTERNS["hub"]),
        (2, 7, PATTERNS["hub"]),
        (1, 12, PATTERNS["hub"]),
    ]
