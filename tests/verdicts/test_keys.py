"""Keys that a decoder keeps, against a decoder that drops each key as soon as nobody needs it."""

from __future__ import annotations

import numpy as np
import pytest

import anyseq as aq
from anyseq.verdicts.keys import keys_kept

NEAR = aq.Causal() & aq.Window(3)
PATTERNS: list[aq.Pattern] = [
    aq.Causal(),
    NEAR,
    aq.Window(0),
    aq.Causal() & aq.Blocks(4),
    aq.Causal() & aq.Dilated(2, 3),
    aq.Causal() & (aq.Window(2) | aq.Global((0,))),
    aq.Causal() & aq.LogSparse(),
]


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_keys_of_a_pattern(pattern: aq.Pattern) -> None:
    mask = pattern.mask(16).numpy() | np.eye(16, dtype=bool)
    most = max(int(mask[i:, : i + 1].any(0).sum()) for i in range(16))
    assert keys_kept(aq.Design(16, pattern)) == most


def test_keys_of_several_layers() -> None:
    mixed = aq.Design(16, (NEAR, NEAR, aq.Causal()), depth=6)
    assert keys_kept(mixed) == 8  # (4 + 4 + 16) / 3
    assert keys_kept(aq.Design(16, aq.Causal(), bos=True)) == 17
    state = [aq.Layer(NEAR), aq.Layer(mixer="recurrence")]
    assert keys_kept(aq.Design(16, layers=state)) == 4
    assert keys_kept(aq.Design(16, layers=[aq.Layer(mixer="recurrence")])) == 0


def test_what_sees_later_tokens_has_no_cache() -> None:
    assert keys_kept(aq.Design(16)) is None
    assert keys_kept(aq.Design(16, (aq.Causal(), aq.Window(1)))) is None
    assert keys_kept(aq.Design(16, aq.Global((0,)))) is None


def test_repairs_say_what_they_keep() -> None:
    verdict = aq.check(aq.Design(64, NEAR, depth=8), target="causal")
    fixes = {fix.change: fix.keys for fix in verdict.fixes}
    assert fixes == {"widen the window to 8": 9, "make it 21 layers deep": 4}
    assert "9 keys kept a layer" in " ".join(str(verdict).split())
    assert [fix["keys"] for fix in verdict.to_dict()["fixes"]] == [
        fix.keys for fix in verdict.fixes
    ]
    for fix in verdict.fixes:
        mask = fix.design.cycle[0].mask(64)
        assert not mask.triu(1).any()
