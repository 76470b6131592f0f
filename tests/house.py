"""The import graph of the floors, and of the rooms of `construct`: `make house` draws both.

docs/house.svg and docs/rooms.svg: on the left the boxes in the order that pyproject.toml gives
import-linter, joined by the imports that no chain of others implies; on the right all imports, each
a dot in the row of the box that imports. Where all imports go downward all dots are above the
diagonal.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path as Route

from anyseq.pictures.style import COLOURS, INK, PALE

ROOT = Path(__file__).parent.parent
PICTURES = {"anyseq": "house.svg", "anyseq.construct": "rooms.svg"}

Edges = frozenset[tuple[str, str]]
Point = tuple[float, float]


@dataclass(frozen=True)
class House:
    """floors: from the top down, the names side by side on each. edges: (importer, imported)."""

    floors: tuple[tuple[str, ...], ...]
    edges: Edges

    @property
    def names(self) -> list[str]:
        """From the top down."""
        return [name for floor in self.floors for name in floor]

    @property
    def wrong(self) -> list[tuple[str, str]]:
        """The edges that do not lead downward."""
        level = {name: at for at, floor in enumerate(self.floors) for name in floor}
        return sorted((a, b) for a, b in self.edges if level[a] >= level[b])

    @property
    def plain(self) -> Edges:
        """The edges that no chain of others implies."""
        below: dict[str, set[str]] = {}
        for name in reversed(self.names):
            nearest = {b for a, b in self.edges if a == name}
            below[name] = nearest.union(*(below[b] for b in nearest))
        return frozenset(
            (a, b)
            for a, b in self.edges
            if not any(b in below[via] for start, via in self.edges if start == a)
        )


def read() -> tuple[dict[str, House], dict[str, set[str]]]:
    """The houses, by the package that they divide; and what each module of anyseq imports."""
    graph = grimp.build_graph("anyseq", cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layered = [found for found in linter["contracts"] if found["type"] == "layers"]
    houses = {
        package: House(
            tuple(tuple(map(str.strip, floor.split("|"))) for floor in contract["layers"]),
            edges_between(imports, package),
        )
        for contract in layered
        for package in contract["containers"]
    }
    return houses, imports


def edges_between(imports: Mapping[str, set[str]], package: str) -> Edges:
    """Imports between the children of a package."""

    def child(module: str) -> str | None:
        head, _, rest = module.partition(f"{package}.")
        return None if head or not rest else rest.split(".")[0]

    pairs = {(child(a), child(b)) for a, names in imports.items() for b in names}
    return frozenset((a, b) for a, b in pairs if a and b and a != b)


def cycle(imports: Mapping[str, set[str]]) -> list[str]:
    """Modules that import each other in a ring, the first again at the end; none if there is no
    such ring."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as found:
        ring: list[str] = found.args[1]
        return ring
    return []


def draw(house: House) -> Figure:
    """The boxes and the matrix, side by side."""
    height = 1.3 + 0.42 * max(len(house.floors), len(house.names) * 0.62)
    made = Figure(figsize=(11.5, height), facecolor="white", layout="constrained")
    left, right = made.subplots(1, 2, width_ratios=[1.15, 1])
    _boxes(left, house)
    _matrix(right, house)
    return made


def _boxes(panel: Axes, house: House) -> None:
    places = {
        name: ((at + 0.5) - len(floor) / 2, -level)
        for level, floor in enumerate(house.floors)
        for at, name in enumerate(floor)
    }
    for name, (x, y) in places.items():
        panel.add_patch(
            FancyBboxPatch(
                (x - 0.38, y - 0.2),
                0.76,
                0.4,
                boxstyle="round,pad=0,rounding_size=0.08",
                facecolor=PALE,
                edgecolor=INK,
                linewidth=0.8,
                zorder=2,
            )
        )
        panel.text(x, y, name, ha="center", va="center", fontsize=9, color=INK, zorder=3)
    for number, (a, b) in enumerate(sorted(house.plain)):
        panel.add_patch(
            FancyArrowPatch(
                path=_between(house, places[a], places[b], 0.05 * (number % 5 - 2)),
                arrowstyle="-|>",
                mutation_scale=8,
                color=COLOURS[0],
                linewidth=0.9,
            )
        )
    most = max(map(len, house.floors)) / 2
    panel.set_xlim(-most - 0.6, most + 0.6)
    panel.set_ylim(0.5 - len(house.floors), 0.5)
    panel.set_title("imports that no chain of others implies", fontsize=9, color=INK)
    panel.axis("off")


def _between(house: House, start: Point, end: Point, aside: float) -> Route:
    """From the foot of one box to the head of another, through gaps between those on the way."""
    (x, y), (to_x, to_y) = start, end
    points = [(x, y - 0.2)]
    for level in range(round(-y) + 1, round(-to_y)):
        boxes = len(house.floors[level])
        straight = x + (to_x - x) * (level + y) / (y - to_y)
        gap = min((at - boxes / 2 for at in range(boxes + 1)), key=lambda at: abs(at - straight))
        points += [(gap + aside, 0.22 - level), (gap + aside, -0.22 - level)]
    return Route([*points, (to_x, to_y + 0.2)])


def _matrix(panel: Axes, house: House) -> None:
    names, wrong = house.names, house.wrong
    for a, b in sorted(house.edges):
        colour = "#c0392b" if (a, b) in wrong else COLOURS[0]
        (dot,) = panel.plot(names.index(b), names.index(a), "o", color=colour, markersize=6)
        dot.set_gid(f"{a}--{b}")
    at = range(len(names))
    panel.plot([-0.5, len(names) - 0.5], [-0.5, len(names) - 0.5], color=INK, linewidth=0.6)
    panel.set_xticks(at, names, rotation=90, fontsize=8.5, color=INK)
    panel.set_yticks(at, names, fontsize=8.5, color=INK)
    panel.set_xlim(-0.5, len(names) - 0.5)
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.set_aspect("equal")
    panel.grid(color=PALE, linewidth=0.8)
    panel.tick_params(length=0, labelbottom=False, labeltop=True)
    panel.set_axisbelow(True)
    panel.set_title("all imports: the row imports the column", fontsize=9, color=INK)
    for spine in panel.spines.values():
        spine.set_visible(False)


def main() -> None:
    """Write both pictures."""
    houses, _ = read()
    for package, name in PICTURES.items():
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": package}):
            draw(houses[package]).savefig(ROOT / "docs" / name, metadata={"Date": None})


if __name__ == "__main__":
    main()
