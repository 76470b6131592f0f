"""An audit finds nothing in healthy models, after having looked."""

from __future__ import annotations

import warnings

import pytest
import torch

import anyseq as aq
from models.faults.faulty import FAULTY_AS_SHIPPED
from models.faults.healthy import HEALTHY, NOT_CHECKED, checks


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long) if number % 2 else name
        for number, name in enumerate(HEALTHY)
    ],
)
def test_nothing_is_found_in_healthy_models(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings(action="ignore"):  # of what building it says
        model, declared = HEALTHY[name]()
    capfd.readouterr()
    audit = aq.audit(model, declared)
    assert capfd.readouterr() == ("", "")
    assert audit.passed, str(audit)
    assert not checks(name) - {one.name for one in audit.checked}, str(audit)


def test_they_are_many_and_what_is_not_checked_is_up_to_date() -> None:
    assert len(HEALTHY) >= 60
    for _, _, names in NOT_CHECKED:
        assert set(names.split("; ")) <= set(HEALTHY)


@pytest.mark.parametrize("name", FAULTY_AS_SHIPPED)
def test_what_is_shipped_with_a_fault_is_told(name: str) -> None:
    make, rule = FAULTY_AS_SHIPPED[name]
    audit = aq.audit(*make())
    fault = next((one for one in audit.faults if one.rule == rule), None)
    assert fault is not None, str(audit)
    assert _shown(make()[0], fault.snippet) > 1e-3  # in float32, as it is


def _shown(model: torch.nn.Module, snippet: str) -> float:
    """What a snippet prints for a model."""
    printed: list[float] = []
    exec(snippet, {"model": model, "print": printed.append})
    return printed[0]
