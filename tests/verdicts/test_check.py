"""`check` as people call it."""

from __future__ import annotations

import json
from dataclasses import replace
from math import ceil
from typing import Any

import pytest
import torch

import anyseq as aq
from anyseq.errors import InvalidArgument


def test_a_yes_has_a_certificate_and_no_witness() -> None:
    verdict = aq.check(aq.Design(9, aq.Strided(3)))
    assert verdict.universal is True
    assert verdict.witness is None
    assert verdict.fixes == ()
    assert verdict.certificate is not None
    assert verdict.certificate.verify()
    assert verdict.reach is not None
    assert verdict.reach.layers == 2
    assert "yes" in str(verdict)


def test_the_theorem_of_paper_c() -> None:
    """Relative positions cannot in sup norm, can in L^p; URPE can."""
    relative = aq.check(aq.Design(8, position=aq.RelativeBias()))
    assert relative.universal is False
    assert relative.witness is not None
    assert relative.witness.name == "W1"
    assert relative.witness.bound == 3.5
    assert relative.ask("lp", "all").universal is True
    assert aq.check(aq.Design(8, position=aq.URPE())).universal is True
    assert "URPE" in " ".join(fix.change for fix in relative.fixes)


@pytest.mark.parametrize(
    "lie",
    [
        {"layers": 3},
        {"layers": 3, "hub": 3, "proof": "hub"},
        {"layers": 3, "hub": 100, "proof": "hub"},
        {"layers": 3, "proof": "sets"},
        {"design": aq.Design(12, aq.Window(2))},
        {"design": aq.Design(9, aq.Blocks(3))},
        {"design": aq.Design(9, aq.Window(2), aq.RelativeBias())},
        {"kind": "rigid", "design": aq.Design(9, aq.Window(2), aq.NoPosition())},
        {"kind": "mean"},
        {"kind": "mean", "full_layer": 0},
        {"kind": "guess"},
        {"kind": "fixed width"},
        {"target": "some"},
        {"rounds": -1},
    ],
    ids=str,
)
def test_planted_errors_in_a_certificate_are_caught(lie: dict[str, Any]) -> None:
    certificate = aq.check(aq.Design(9, aq.Window(2))).certificate
    assert certificate is not None
    assert certificate.verify()
    assert certificate.layers == 4
    assert not replace(certificate, **lie).verify()


def test_too_few_rounds_are_caught() -> None:
    certificate = aq.check(aq.Design(9, aq.Window(1), aq.URPE())).certificate
    assert certificate is not None
    assert certificate.verify()
    assert certificate.rounds == 4
    assert not replace(certificate, rounds=3).verify()


def test_patterns_masks_and_functions_are_designs_with_positions() -> None:
    window = aq.Window(1)
    mask = window.mask(6)
    for what, tokens in ((window, 6), (mask, None), (lambda b, h, i, j: (i - j).abs() <= 1, 6)):
        verdict = aq.check(what, tokens=tokens)
        assert verdict.universal is True
        assert verdict.reach is not None
        assert verdict.reach.layers == 5
    block_mask = window.block_mask(256)
    assert aq.check(block_mask).universal is True
    blocks = torch.block_diag(torch.ones(3, 3), torch.ones(3, 3)).bool()
    verdict = aq.check(blocks)
    assert verdict.universal is False
    assert verdict.witness is not None
    assert verdict.witness.name == "W6"


def test_every_fix_works_and_costs_what_it_says() -> None:
    design = aq.Design(12, aq.Window(1), aq.Rotary(), depth=3)
    fixes = aq.check(design).fixes
    assert fixes
    assert [fix.connections for fix in fixes] == sorted(fix.connections for fix in fixes)
    before = aq.Window(1).edges(12).shape[1]
    for fix in fixes:
        assert aq.check(fix.design).universal is True
        size = fix.design.tokens + fix.design.bos
        counts = [pattern.edges(size).shape[1] for pattern in fix.design.cycle]
        assert fix.connections == ceil(sum(counts) / len(counts)) - before


def test_depth_in_between_is_unknown() -> None:
    design = aq.Design(8, aq.Window(1), aq.URPE())
    free = aq.check(design)
    assert free.universal is True
    assert free.certificate is not None
    needed = free.certificate.rounds + free.certificate.layers
    answers = [aq.check(replace(design, depth=depth)).universal for depth in range(1, needed + 2)]
    assert answers[:6] == [False] * 6, "seven layers are needed to reach across"
    assert answers[needed - 1 :] == [True, True]
    assert None in answers


def test_json_and_table() -> None:
    verdict = aq.check(aq.Design(5, aq.Causal(), aq.NoPosition()))
    plain = json.loads(json.dumps(verdict.to_dict(), allow_nan=False))
    assert plain["universal"] is False
    assert plain["table"]["causal"] == {"sup": False, "lp": True}
    assert plain["reach"]["connections"] == [15]
    assert plain["reach"]["sparsity"] == pytest.approx(10 / 25)
    assert plain["witness"]["name"] in ("W5", "W8")
    table = verdict.table().splitlines()
    assert table[0].split() == ["target", "sup", "lp"]
    assert [line.split()[0] for line in table[2:]] == ["all", "causal", "equivariant"]


def test_paper_b_conditions_are_reported_one_by_one() -> None:
    rules = {one.rule: one.holds for one in aq.check(aq.Design(8, aq.Strided(3))).fixed_width}
    assert rules == {"self-loops": True, "path": True, "s": True, "concentration": True}
    proof = aq.check(aq.Design(8, aq.Strided(3))).fixed_width_certificate
    assert proof is not None
    assert proof.order is not None
    assert proof.verify()
    assert not replace(proof, order=proof.order[[0, 2, 4, 6, 1, 3, 5, 7]][::2]).verify()
    assert not replace(proof, design=aq.Design(8, aq.Blocks(4))).verify()
    assert not replace(proof, design=aq.Design(8, ~aq.Window(1))).verify()
    assert aq.check(aq.Design(8, aq.Global((0,)))).fixed_width_certificate is None
    star = {one.rule: one.holds for one in aq.check(aq.Design(8, aq.Global((0,)))).fixed_width}
    assert star == {"self-loops": False, "path": False, "s": True, "concentration": True}


@pytest.mark.parametrize(
    ("what", "options", "message"),
    [
        (aq.Window(1), {}, "tokens=None: say for how many"),
        (aq.Window(1), {"tokens": 0}, "tokens=0: expected a whole number"),
        (torch.ones(3, 4, dtype=torch.bool), {}, "square bool mask"),
        (torch.ones(3, 3), {}, "square bool mask"),
        (torch.ones(0, 0, dtype=torch.bool), {}, "tokens=0"),
        (torch.ones(4, 4, dtype=torch.bool), {"tokens": 5}, "the mask is for 4"),
        (aq.Design(4), {"tokens": 5}, "the design has 4"),
        (aq.Design(4), {"norm": "l2"}, "norm='l2': expected one of"),
        (aq.Design(4), {"target": "any"}, "target='any': expected one of"),
        (3, {"tokens": 4}, "expected a Pattern"),
    ],
)
def test_bad_input(what: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        aq.check(what, **options)


def test_a_mask_mod_that_raises_is_one_clear_line() -> None:
    def broken(b: Any, h: Any, i: Any, j: Any) -> Any:
        raise RuntimeError("no such table")

    with pytest.raises(InvalidArgument, match="no such table"):
        aq.check(broken, tokens=4)
