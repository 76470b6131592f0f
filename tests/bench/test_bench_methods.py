"""`anyseq bench methods` compares what it says; the figures themselves are for quiet machines."""

import re
from pathlib import Path
from typing import Any

from anyseq.bench import bench_methods
from anyseq.cli.bench_methods_text import methods_text
from anyseq.construct import FUNCTIONS
from anyseq.construct.methods import METHODS

COMPARISON = (Path(__file__).parents[2] / "docs" / "comparison.md").read_text()


def test_every_method_and_the_usual_means() -> None:
    figures = bench_methods(quick=True)
    usual = {"Chebyshev", "Transformer", "ReLU MLP"}
    names = {row["what"].partition(",")[0] for row in figures["rows"]}
    assert {"gather", "yun"} | usual <= names <= METHODS.keys() | usual
    for row in figures["rows"]:
        if row["proved"] is not None:
            assert row["seen"] <= row["proved"] <= figures["tol"]
            assert row["nonzero"] < row["parameters"]
    for row in figures["equal_error"]:
        assert row["gather_curvature"] <= row["gather"]
        for name in ("yun", "gather_curvature"):
            assert 0 < row[f"{name}_nonzero"] < row[name]
    assert _hundred(figures["equal_error"], "") == FUNCTIONS.keys()
    assert _hundred(figures["equal_error"], "_nonzero") == FUNCTIONS.keys()
    text = methods_text(figures)
    assert "2 tokens, by all parameters, 100x or more from this error on: sort " in text
    assert "2 tokens, by parameters not 0, 100x or more from this error on: sort " in text
    assert "Not reached" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert "Chebyshev: smaller than every proven network" in text


def _hundred(rows: list[dict[str, Any]], count: str) -> set[str]:
    """Where "gather" has a hundred times fewer parameters, at some error."""
    return {
        row["function"]
        for row in rows
        if row[f"yun{count}"] >= 100 * row[f"gather_curvature{count}"]
    }


def test_the_page_speaks_of_all_functions() -> None:
    (block,) = re.findall(r"<!-- bench methods -->\n(.*?)<!-- end -->", COMPARISON, re.DOTALL)
    assert len(FUNCTIONS) >= 12
    for name in FUNCTIONS:
        assert f"\n{name}\n" in block
        assert f"\n{name}, 2 tokens\n" in block
        assert f"\n{name}, 3 tokens\n" in block
    assert "Not reached" not in " ".join(block.split())
