"""Verdicts on designs with a bias over the offsets of an array."""

from __future__ import annotations

import pytest
import torch

import anyseq as aq
from anyseq.graph import refine
from anyseq.positions import Place
from verdicts.networks import random_network

GRID = aq.GridBias((4, 4))
PATTERNS = [
    aq.Full(),
    aq.Neighbourhood((4, 4), 1),
    (aq.ShiftedWindows((4, 4), 2), aq.ShiftedWindows((4, 4), 2, 1)),
]


@pytest.mark.parametrize("patterns", PATTERNS, ids=["full", "neighbours", "windows"])
def test_identical_tokens_stay_identical(patterns: aq.Pattern | tuple[aq.Pattern, ...]) -> None:
    """Rows of weights sum to 1, whatever the bias: as with RelativeBias, f_i = i is out of reach;
    a gain, or positions at the input, make up for it."""
    design = aq.Design(16, patterns, position=GRID)
    verdict = aq.check(design)
    assert verdict.universal is False
    assert verdict.witness is not None
    assert verdict.witness.name == "W1"
    assert verdict.witness.bound == 7.5
    for seed in range(3):
        model = random_network(design, seed, depth=3, dim=6, heads=2)
        assert verdict.witness.replay(model) >= 7.5 - 1e-9
    assert [fix.design.position for fix in verdict.fixes] == [aq.URPE(GRID), aq.Absolute()]
    for fix in verdict.fixes:
        certificate = aq.check(fix.design).certificate
        assert certificate is not None
        assert certificate.verify()


def test_no_repair_leaves_the_array() -> None:
    """BOS would be a token more than there are cells."""
    for position in (GRID, aq.URPE(GRID)):
        for patterns in (aq.Full(), aq.Window(1), aq.Blocks(4)):
            for norm in ("sup", "lp"):
                verdict = aq.check(aq.Design(16, patterns, position=position), norm=norm)
                assert not any(fix.design.bos for fix in verdict.fixes)


@pytest.mark.parametrize("patterns", PATTERNS, ids=["full", "neighbours", "windows"])
def test_different_tokens_find_their_places(
    patterns: aq.Pattern | tuple[aq.Pattern, ...],
) -> None:
    """In L^p a design is universal: offsets of cells say who is where."""
    verdict = aq.check(aq.Design(16, patterns, position=GRID), norm="lp")
    assert verdict.universal is True
    assert verdict.certificate is not None
    assert verdict.certificate.kind == "rigid"
    assert verdict.certificate.verify()


def test_a_sink_tells_the_border_and_the_bias_the_rest() -> None:
    """Cells at the border see fewer keys; a bias by i - j alone would mix up rows."""
    design = aq.Design(12, aq.Neighbourhood((3, 4), 1), position=aq.GridBias((3, 4)), sinks=True)
    assert refine(design).discrete
    certificate = aq.check(design).certificate
    assert certificate is not None
    assert certificate.verify()


def test_cells_are_told_apart_where_numbers_are_not() -> None:
    """In an array of one column below the other, i - j = 1 is a step down, or to the right."""
    shape = (2, 2)
    mask = torch.eye(4, dtype=torch.bool)
    mask[1, 0] = mask[2, 1] = True  # offsets (0, 1) and (1, -1)
    pattern = aq.FromMask(mask)
    alike = refine(aq.Design(4, pattern, position=aq.RelativeBias(), sinks=True))
    apart = refine(aq.Design(4, pattern, position=aq.GridBias(shape), sinks=True))
    assert len(set(alike.classes.tolist())) == 3  # one who sees itself only, and chains of one, two
    assert len(set(apart.classes.tolist())) == 3
    assert alike.rounds == 2  # the second link of the chain is known by what the first one knows
    assert apart.rounds == 1


def test_one_axis_is_a_relative_bias() -> None:
    for patterns in (aq.Window(1), aq.Causal(), aq.Star(1)):
        for sinks in (False, True):
            designs = [
                aq.Design(7, patterns, position=position, sinks=sinks)
                for position in (aq.GridBias((7,)), aq.RelativeBias())
            ]
            for norm in ("sup", "lp"):
                grid, plain = (aq.check(design, norm=norm) for design in designs)
                assert (grid.universal, grid.reason) == (plain.universal, plain.reason)


def test_a_large_image_is_decided() -> None:
    verdict = aq.check(
        aq.Design(4096, aq.Neighbourhood((64, 64), 3), position=aq.GridBias((64, 64)))
    )
    assert verdict.universal is False
    gained = aq.URPE(aq.GridBias((64, 64)))
    assert Place.GAIN in gained.acts_in
    assert aq.check(aq.Design(4096, aq.Neighbourhood((64, 64), 3), position=gained)).universal


def test_volumes_have_more_offsets_than_four_a_token() -> None:
    """The second opinion draws a score for each of them."""
    design = aq.Design(27, aq.Neighbourhood((3, 3, 3), 1), position=aq.URPE(aq.GridBias((3, 3, 3))))
    certificate = aq.check(design).certificate
    assert certificate is not None
    assert certificate.verify()
