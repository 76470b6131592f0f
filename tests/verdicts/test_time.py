"""Every search has a budget of time; what is not found by then is not known, and says so."""

import time

import pytest
import torch

import anyseq as aq
from anyseq.base import OutOfTime, check_time, remaining, within
from anyseq.errors import InvalidArgument

EYE = torch.eye(4096, dtype=torch.bool)
LONG = {
    "a ring as a mask": (4096, EYE | EYE.roll(1, 0)),
    "a ring the other way": (4096, EYE | EYE.roll(-1, 0)),
    "random patterns in turn": (4096, tuple(aq.Random(2, seed) for seed in range(50))),
    "one pattern many times": (1024, (aq.Window(1),) * 2000),
    "one pattern many times, and another": (1024, (*(aq.Window(1),) * 1999, aq.Window(2))),
}


@pytest.mark.parametrize("name", LONG)
def test_designs_that_take_long_are_decided_and_printed(name: str) -> None:
    tokens, patterns = LONG[name]
    start = time.monotonic()
    verdict = aq.check(aq.Design(tokens, patterns))
    assert verdict.universal
    assert "Yes" in str(verdict)
    assert time.monotonic() - start < 60


def test_a_cycle_is_as_long_as_it_takes_to_come_again() -> None:
    one, other = aq.Window(1), aq.Window(2)
    assert aq.Design(8, (one,) * 6).cycle == (one,)
    assert aq.Design(8, (one, other) * 3) == aq.Design(8, (one, other))
    assert aq.Design(8, (one, other, one)).cycle == (one, other, one)
    assert aq.Design(8, (one, one, other, one)).cycle == (one, one, other, one)


def test_without_time_nothing_is_claimed() -> None:
    """Not even that there are no repairs."""
    graph = torch.rand(2048, 2048, generator=torch.Generator().manual_seed(0)) < 0.01
    design = aq.Design(2048, graph)
    assert aq.check(design).universal
    cut = aq.check(design, seconds=1e-6)
    assert cut.universal is None
    assert cut.reason == "not decided in 1e-06 s; give more seconds"
    assert cut.witness is None
    assert cut.certificate is None
    assert cut.reach is None
    assert cut.fixes == ()
    assert not cut.fixes_complete
    assert cut.fixed_width_certificate is None
    assert "Not known" in str(cut)
    assert "not all were tried in 1e-06 s" in str(cut)
    facts = cut.to_dict()
    assert facts["universal"] is None
    assert not facts["fixes_complete"]


def test_what_is_easy_is_decided_in_no_time() -> None:
    assert aq.check(aq.Design(64), seconds=5.0).universal
    for wrong in (0, -1.0, float("nan"), "soon"):
        with pytest.raises(InvalidArgument, match="seconds"):
            aq.check(aq.Design(4), seconds=wrong)  # type: ignore[arg-type]


def test_budgets_lie_inside_one_another() -> None:
    check_time()
    with within(100):
        with within(1000):
            assert 99 < remaining() <= 100
        with within(-1), pytest.raises(OutOfTime):
            check_time()
        check_time()


def test_what_was_not_found_in_a_hurry_is_looked_for_again() -> None:
    eye = EYE[:64, :64]
    verdict = aq.check(aq.Design(64, eye | eye.roll(7, 0) | eye.roll(12, 0), depth=2))
    assert verdict.universal is False
    with within(1e-9):
        assert verdict.fixed_width[1].holds is None
        assert not verdict.fixes_complete
    assert verdict.fixed_width[1].holds
    assert verdict.fixes_complete
    assert verdict.fixes
    assert verdict.fixes is verdict.fixes
