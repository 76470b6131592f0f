import pytest

from anyseq.construct import Term
from anyseq.construct.request.error import combine


def term(value: float, on: str) -> Term:
    return Term("t", value, on, "because")


def test_errors_add_where_they_act_together() -> None:
    terms = [term(1, "cells"), term(2, "cells"), term(4, "ramps")]
    assert combine(terms, "lp", 2) == pytest.approx(5)
    assert combine(terms, "lp", 1) == pytest.approx(7)
    assert 4 < combine(terms, "sup", 2) < 4 * (1 + 1e-12), "rounded outward"
    assert combine([], "sup", 2) == 0


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
@pytest.mark.parametrize("p", [1.0, 2.0, 200.0, 1e5])
def test_no_power_under_or_overflows(size: float, p: float) -> None:
    together = combine([term(size, "cells"), term(size, "ramps")], "lp", p)
    assert together == pytest.approx(size * 2 ** (1 / p))
