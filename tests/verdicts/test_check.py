"""`check` as people call it."""

from __future__ import annotations

import json
from dataclasses import replace
from math import ceil
from typing import Any

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.graph import path, path_solver


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
        (aq.Window(1), {}, "tokens=None: give the number"),
        (aq.Window(1), {"tokens": 0}, "tokens=0: expected a whole number"),
        (torch.ones(3, 4, dtype=torch.bool), {}, "square bool mask"),
        (torch.ones(3, 3), {}, "square bool mask"),
        (torch.ones(0, 0, dtype=torch.bool), {}, "tokens=0"),
        (torch.ones(4, 4, dtype=torch.bool), {"tokens": 5}, "the mask is for 4"),
        (aq.Design(4), {"tokens": 5}, "the design has 4"),
        (aq.Design(4), {"norm": "l2"}, "norm='l2': expected one of"),
        (aq.Design(4), {"target": "any"}, "target='any': expected one of"),
        (torch.ones(2, 4, 4, dtype=torch.bool), {}, r"shape \(2, 4, 4\); expected a square"),
        (3, {"tokens": 4}, "what=3: expected a Pattern"),
        ((), {"tokens": 4}, r"what=\(\): expected a Pattern"),
        ([aq.Window(1), aq.Full()], {"tokens": 4}, "a list of patterns; expected a tuple"),
        (["window(1)", "full"], {"tokens": 4}, "a list of patterns; expected a tuple"),
        ("window(64)", {}, "give the number of tokens"),
        ("windw(64)", {}, "no such file.*names no pattern: .*windw is unknown; there are"),
        ("somebody/model", {}, "what='somebody/model': there is no such file.*downloaded"),
        (aq.Window(1), {"tokens": 10**12}, "up to 524,288"),
        (aq.Design(10**9), {}, "up to 524,288"),
        ({"model_type": "llama"}, {"tokens": 10**9}, "up to 524,288"),
    ],
)
def test_bad_input(what: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message) as caught:
        aq.check(what, **options)
    assert "\n" not in str(caught.value)


def broken(b: Any, h: Any, i: Any, j: Any) -> Any:
    raise RuntimeError("no such\ntable")


def by_head(b: Any, h: Any, i: Any, j: Any) -> Any:
    return torch.where(h == 0, i >= j, i <= j)


@pytest.mark.parametrize(
    ("mask_mod", "message"),
    [(broken, "the mask_mod fails.*no such table"), (by_head, r"the head h.*PerHead\(first")],
)
def test_what_is_wrong_with_a_mask_mod_is_one_clear_line(mask_mod: Any, message: str) -> None:
    for what in (mask_mod, (aq.Full(), mask_mod), aq.Design(4, aq.Window(1) | mask_mod)):
        with pytest.raises(InvalidArgument, match=message) as caught:
            aq.check(what, tokens=4)
        assert "\n" not in str(caught.value)


def test_a_block_mask_that_is_not_square() -> None:
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 256, device="cpu")
    for what in (lambda: mask, lambda: aq.Design(256, mask)):
        with pytest.raises(InvalidArgument, match=r"\(1, 1, 128, 256\); expected as many queries"):
            aq.check(what())


def test_a_tuple_is_a_cycle_as_in_a_design() -> None:
    cycle = (aq.Blocks(4), aq.Window(1))
    assert aq.check(cycle, tokens=8).design == aq.Design(8, cycle)
    assert aq.check((aq.Full(), aq.Window(1).mask(6))).design == aq.Design(
        6, (aq.Full(), aq.Window(1).mask(6))
    )
    with pytest.raises(InvalidArgument, match=r"masks for \[3, 4\] tokens"):
        aq.check((aq.Full().mask(3), aq.Full().mask(4)))


def test_each_fact_is_found_once() -> None:
    """That nothing but the identity keeps a design is what rigidity rests on."""
    rope = aq.Design(8, position=aq.Rotary())

    def found(design: aq.Design) -> list[str]:
        return [one.rule for one in aq.check(design, norm="lp").findings]

    assert found(rope) == ["reach", "rigidity"]
    assert found(replace(rope, prob_map="hardmax")) == ["reach", "rigidity"]
    assert found(replace(rope, feedforward=False)) == ["reach", "symmetries", "feed-forward"]
    assert found(replace(rope, position=aq.NoPosition())) == ["reach", "symmetries"]


def test_a_missing_solver_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where neither counting nor patching decides whether there is a path."""
    message = "a solver may decide this: pip install 'anyseq[solver]'"
    monkeypatch.setattr(path, "patched", lambda edges, end: None)
    monkeypatch.setattr(path_solver, "find_spec", lambda name: None)
    verdict = aq.check(aq.Design(20, ~aq.Window(1)))
    found = {one.rule: one for one in verdict.fixed_width}["path"]
    assert found.holds is None
    assert message in found.saw
    assert message in " ".join(str(verdict).split())


def test_a_verdict_is_printed_as_the_command_prints_it() -> None:
    verdict = aq.check(aq.Design(256, aq.Window(64) | aq.Global((0,)), aq.Rotary()))
    lines = str(verdict).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 40
    normed = str(aq.check(aq.Design(4, final_norm="rmsnorm")))
    assert ".." not in normed


@pytest.mark.parametrize(
    "design",
    [
        aq.Design(
            2,
            torch.tensor([[1, 0, 1], [1, 0, 1], [1, 1, 1]]).bool(),
            aq.NoPosition(),
            prob_map="hardmax",
            bos=True,
        ),
        aq.Design(3, aq.Full(), aq.T5Bias(4, 3), prob_map="sparsemax", bos=True),
    ],
    ids=["hardmax", "sparsemax"],
)
def test_second_opinions_may_need_many_heads(design: aq.Design) -> None:
    certificate = aq.check(design).certificate
    assert certificate is not None
    assert certificate.verify()


@pytest.mark.parametrize(
    "design",
    [
        aq.Design(2, position=aq.T5Bias(), sinks=True),
        aq.Design(3, position=aq.URPE(aq.T5Bias()), bos=True),
        aq.Design(64, aq.Causal(), aq.RelativeBias(), "sparsemax", sinks=True),
    ],
    ids=str,
)
def test_certificates_of_wide_tables_and_narrow_maps(design: aq.Design) -> None:
    """More buckets than offsets; scores so far apart that sparsemax keeps a few keys only."""
    certificate = aq.check(design, target="causal").certificate
    assert certificate is not None
    assert certificate.verify()
