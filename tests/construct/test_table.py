"""The table of what must work, with the sizes that are expected: lost efficiency is caught here.

Every row is built at its grid step, compared with the plan, run through its blocks on random
inputs, cell corners and ramps, and compared with what the theory says T is.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from construct.inputs import corners, random, ramps

import anyseq as aq
from anyseq.construct import Approximation
from anyseq.construct.functions import FUNCTIONS, cosine
from anyseq.construct.fused import CellTable

EXAMPLES = FUNCTIONS | {"cosine-2": cosine(2)}


class Row(NamedTuple):
    function: str
    tokens: int
    features: int
    method: str
    positions: bool
    steps: int
    layers: int
    parameters: int


A, N = True, False  # absolute positions, none

TABLE = [
    Row("sort", 3, 1, "yun", A, 8, 1587, 20572),
    Row("sort", 4, 1, "yun", A, 8, 16451, 213799),
    Row("reverse", 3, 1, "yun", A, 16, 12387, 0),
    Row("running-max", 4, 1, "yun", A, 16, 262275, 0),
    Row("prefix-mean", 2, 1, "yun", A, 64, 8451, 0),
    Row("times-max", 2, 2, "yun", A, 8, 8355, 0),
    Row("cosine", 2, 1, "yun", A, 64, 8451, 0),
    Row("cosine-2", 3, 1, "yun", A, 16, 12387, 0),
    Row("attention", 2, 2, "yun", A, 16, 0, 0),
    Row("plus-mean", 4, 1, "yun", A, 8, 16451, 0),
    Row("plus-mean", 2, 1, "yun", N, 64, 4166, 0),
    Row("plus-mean", 4, 1, "yun", N, 16, 0, 0),
    Row("times-max", 3, 1, "yun", N, 16, 1718, 0),
    Row("attention", 2, 2, "yun", N, 8, 4119, 0),
    Row("cosine", 3, 1, "yun", N, 8, 0, 0),
    Row("sort", 3, 1, "gather", A, 16, 0, 0),
    Row("sort", 4, 1, "gather", A, 8, 0, 0),
    Row("reverse", 4, 1, "gather", A, 16, 0, 0),
    Row("running-max", 3, 1, "gather", A, 16, 0, 0),
    Row("prefix-mean", 2, 1, "gather", A, 64, 0, 0),
    Row("times-max", 4, 1, "gather", A, 8, 0, 0),
    Row("cosine", 2, 1, "gather", A, 64, 0, 0),
    Row("cosine-2", 3, 1, "gather", A, 16, 0, 0),
    Row("attention", 2, 2, "gather", A, 8, 0, 0),
    Row("plus-mean", 3, 1, "gather", A, 16, 0, 0),
]


def build(row: Row) -> Approximation:
    """The approximation whose tolerance is what the row's grid step just meets."""
    example = EXAMPLES[row.function]
    lipschitz = example.lipschitz(row.tokens, row.features)
    norm = "lp" if row.method == "yun" else "sup"
    design = aq.Design(row.tokens, position=aq.Absolute() if row.positions else aq.NoPosition())
    # halve the tolerance from far above until the step is reached
    tol = 4.0 * lipschitz
    while True:
        result = aq.approximate(
            example,
            design,
            features=row.features,
            tol=tol,
            norm=norm,
            method=row.method,
            lipschitz=lipschitz,
        )
        if result.facts.step <= 1 / row.steps:
            return result
        assert result.error.upper is not None
        tol = min(tol, result.error.upper) * 0.999


@pytest.mark.parametrize("row", TABLE, ids=lambda row: "-".join(map(str, row[:6])))
def test_row(row: Row) -> None:
    example = EXAMPLES[row.function]
    result = build(row)
    assert result.facts.step == 1 / row.steps
    print(
        f"    Row({row.function!r}, {row.tokens}, {row.features}, {row.method!r}, {'A' if row.positions else 'N'}, {row.steps}, {result.size.layers}, {result.size.parameters}),".replace(
            "'", '"'
        )
    )
