"""`anyseq bench methods` compares what it says; the figures themselves are for quiet machines."""

import re
from pathlib import Path

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
    many = set()
    for row in figures["equal_error"]:
        assert row["gather_curvature"] <= row["gather"]
        if row["yun"] >= 100 * row["gather_curvature"]:
            many.add((row["function"], row["tokens"]))
    # a spike asks for too fine a grid before yun runs out of bits
    assert many == {(name, tokens) for name in FUNCTIONS for tokens in (2, 3) if name != "spike"}
    text = methods_text(figures)
    assert "2 tokens, by the curvature 100 x or more from this error on: sort " in text
    assert " ".join(text.split()).count("Not reached: spike.") == 2
    assert max(map(len, text.splitlines())) <= 80
    assert "Chebyshev: smaller than every proved network" in text


def test_the_page_speaks_of_all_functions() -> None:
    (block,) = re.findall(r"<!-- bench methods -->\n(.*?)<!-- end -->", COMPARISON, re.DOTALL)
    assert len(FUNCTIONS) >= 12
    for name in FUNCTIONS:
        assert f"\n{name}\n" in block
        assert f"\n{name}, 2 tokens" in block
