"""Docstrings as reStructuredText, of which the reference is made."""

import runpy
from pathlib import Path

AS_RST = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "_ext" / "docstrings.py"))[
    "as_rst"
]


def test_entries_become_a_list() -> None:
    given = [
        "What it does, with x_i and |x|.",
        "",
        "norm: `sup` or other.",
        "    It goes on. tol: the tolerance.",
        "low, high: both ends.",
        "",
        "A sentence: not an entry.",
    ]
    assert AS_RST(given, {"norm", "tol"}) == [
        "What it does, with x\\_i and \\|x\\|.",
        "",
        "",
        "``norm``",
        "    \\ ``sup``\\  or other.",
        "    It goes on.",
        "",
        "``tol``",
        "    the tolerance.",
        "",
        "``low`` and ``high``",
        "    both ends.",
        "",
        "A sentence: not an entry.",
    ]


def test_code_stays_as_it_is() -> None:
    given = ["As follows::", "", "    x_i = y_i", "", ">>> a_b", "", "and a_b"]
    assert AS_RST(given) == [*given[:-1], "and a\\_b"]
