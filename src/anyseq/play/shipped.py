"""The networks that the page brings along, and the formulas of the library's own functions.

`make networks` writes them into the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from anyseq.construct import FUNCTIONS, approximate
from anyseq.design import Design
from anyseq.patterns import parse_pattern
from anyseq.play.formula import Formula, parse
from anyseq.play.network import described, script
from anyseq.positions import parse_position

FOLDER = Path(__file__).parent / "page" / "networks"

FORMULAS = {
    "sort": "sort(x)[i]",
    "reverse": "x[n-1-i]",
    "running-max": "max(x[:i+1])",
    "prefix-mean": "mean(x[:i+1])",
    "times-max": "x[i] * max(x)",
    "cosine": "cos(pi * sum(x))",
    "waves": "sin(2*pi * sum(x[:i+1]))",
    "attention": "sum(exp(x[i]*x) * x) / sum(exp(x[i]*x))",
    "plus-mean": "x[i] + mean(x)",
    "mean-square": "mean(x**2)",
    "neighbours": "x[i] * x[i+1] if i < n-1 else x[i]",
    "bump": "exp(-8 * sum((x - 1/2)**2))",
    "spike": "exp(-200 * sum((x - 1/3)**2))",
    "kuramoto": "x[i] + mean(sin(2*pi * (x - x[i])))/2",
}
"""The library's functions, for one feature, as the page computes them."""


@dataclass(frozen=True)
class Shipped:
    """One network: a built-in function, and the design that it is built for."""

    name: str
    function: str
    tokens: int
    tol: float
    pattern: str = "full"
    position: str = "absolute"

    @property
    def design(self) -> Design:
        """Its design."""
        return Design(
            self.tokens, parse_pattern(self.pattern), position=parse_position(self.position)
        )

    def network(self) -> dict[str, Any]:
        """What its file holds."""
        return build(self.function, self.design, tol=self.tol, title=self.name)


SHIPPED = (
    Shipped("reverse", "reverse", 3, 0.1),
    Shipped("sort", "sort", 3, 0.1),
    Shipped("running max, causal", "running-max", 3, 0.1, pattern="causal"),
    Shipped("sort, URPE", "sort", 3, 0.1, position="urpe"),
    Shipped("product of neighbours, window", "neighbours", 4, 0.2, pattern="window(1)"),
    Shipped("wave", "waves", 2, 0.1),
    Shipped("times the max, window", "times-max", 3, 0.1, pattern="window(1)"),
)


@cache
def formula_of(function: str) -> Formula:
    """The formula of a built-in function."""
    return parse(FORMULAS[function])


def build(function: str, design: Design, *, tol: float, title: str) -> dict[str, Any]:
    """The network of a built-in function, as the page takes it."""
    result = approximate(FUNCTIONS[function], design, features=1, tol=tol)
    return described(result, title, formula_of(function))


def file_name(network: Shipped) -> str:
    """Such as "sort-urpe.js"."""
    return "-".join(network.name.lower().replace(",", "").split()) + ".js"


def write(folder: Path = FOLDER) -> None:
    """Write all of them, and remove what is shipped no more."""
    folder.mkdir(exist_ok=True)
    made = {file_name(one): script(one.network()) for one in SHIPPED}
    for old in folder.glob("*.js"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (folder / name).write_text(text)
