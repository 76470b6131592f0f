"""The fixture `anyseq_audit`, for tests of models: it is there once anyseq is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from anyseq.models import Audit


@pytest.fixture
def anyseq_audit() -> Callable[..., Audit]:
    """`anyseq_audit(model, declared=None, ...)` takes what `anyseq.audit` takes, and fails the test
    with the faults that were found, if any; otherwise it returns the Audit."""

    def passes(model: Any, declared: Any = None, **options: Any) -> Audit:
        from anyseq.models import audit

        found = audit(model, declared, **options)
        if not found.passed:
            pytest.fail(str(found), pytrace=False)
        return found

    return passes
