"""What top-k depends on in the tables T_i.

Keys are kept from the highest score down until there are k of them, those that tie with the k-th
included; softmax acts on what is kept. So besides T_i up to a factor it matters which sets of keys
that can stand on top have k keys or more. For rows that are multiples m of one table one number
tells that: the least size of such a set, in the table, that is k/m or more. The arguments why these
keys are exact stand in docs/theorems.md, "Top-k".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from anyseq.graph.edges import Array
from anyseq.graph.level_sets import least_level_set
from anyseq.graph.slopes import Ordered
from anyseq.graph.sums import choices, least, prefixes
from anyseq.graph.tables import Tables, either


def by_labels(tables: Tables, colours: Array, k: int) -> list[bytes]:
    """Scores α_c + β_r are free; the keys of one label r and colour c, a class, tie.

    Where all keys are kept whatever the scores, or every class has k keys (and one is kept): what
    softmax or hardmax depends on. Else T_i up to a factor (without its label, if there is but one),
    and which of the sets {α_c + β_r >= 0}, not all, have k keys.
    """
    smallest = _smallest_class(tables)
    soft = (tables.columns <= 1) | (tables.visible - smallest < k)
    shape = tables.keys(tables.row, [tables.unnamed_kind, tables.colour], tables.count, divide=True)

    def on_top(i: int, enough: int) -> int:
        return least_level_set(_table(tables, i), enough)

    units = _units(tables.row, tables.count, tables.edges.size)
    ratios, cut = tables.ratios(), _with_least(colours, shape, units, k, on_top)
    return either(soft, ratios, either(smallest >= k, ratios, cut))


def by_slopes(tables: Tables, colours: Array, distance: Array, k: int) -> list[bytes]:
    """ALiBi, without gains: scores are α_c - m·d.

    Where all keys are kept whatever the α: what softmax depends on. Else T_i without the keys that
    have k nearer ones of their own colour, up to a factor and a constant in the distances, and
    which choices of nearest keys of each colour, not all, have k keys.
    """
    order = Ordered.of(tables, distance)
    kept = order.before < k
    soft = (tables.columns <= 1) | (tables.visible - order.smallest_last() < k)

    def on_top(i: int, enough: int) -> int:
        mine = kept & (order.row == i)
        count, colour = order.count[mine] // np.gcd.reduce(order.count[mine]), order.colour[mine]
        sums = choices(prefixes(count[colour == c].tolist()) for c in np.unique(colour))
        return least(sums & ~(1 << int(count.sum())), enough)  # the set of all tells nothing

    units = _units(order.row[kept], order.count[kept], tables.edges.size)
    cut = _with_least(colours, order.keys(kept, divide=True), units, k, on_top)
    return either(soft, tables.rational(distance) if soft.any() else cut, cut)


def _with_least(
    colours: Array, shape: list[bytes], units: Array, k: int, on_top: Callable[[int, int], int]
) -> list[bytes]:
    """For rows of one old colour and shape, which are multiples of one table by their units, that
    number besides. on_top: of a row, the least size of a set that is enough, over its unit."""
    groups = defaultdict(list)
    for i, group in enumerate(zip(colours.tolist(), shape, strict=True)):
        groups[group].append(i)
    keys = list(shape)
    for rows in groups.values():
        different = set(units[rows].tolist())
        if len(different) > 1:
            found = {unit: on_top(rows[0], -(-k // unit)) for unit in different}
            for i in rows:
                keys[i] += b"%d" % found[int(units[i])]
    return keys


def _units(row: Array, count: Array, size: int) -> Array:
    """(size,) the greatest common divisor of each row's counts; 0 where there are none."""
    units = np.zeros(size, dtype=np.int64)
    np.gcd.at(units, row, count)
    return units


def _smallest_class(tables: Tables) -> Array:
    """(size,) the least number of keys of one label and colour."""
    labels = int(tables.edges.r.max()) + 1
    code = (tables.row * labels + tables.edges.r[tables.kind]) * (tables.edges.size + 1)
    _, first, which = np.unique(code + tables.colour, return_index=True, return_inverse=True)
    sums = np.bincount(which, weights=tables.count).astype(np.int64)
    smallest = np.full(tables.edges.size, np.iinfo(np.int64).max)
    np.minimum.at(smallest, tables.row[first], sums)
    return smallest


def _table(tables: Tables, i: int) -> list[list[int]]:
    """(labels, colours) how many keys vertex i has of each, over its unit."""
    mine = tables.row == i
    _, r = np.unique(tables.edges.r[tables.kind[mine]], return_inverse=True)
    _, c = np.unique(tables.colour[mine], return_inverse=True)
    table = np.zeros((r.max() + 1, c.max() + 1), dtype=np.int64)
    np.add.at(table, (r, c), tables.count[mine] // np.gcd.reduce(tables.count[mine]))
    cells: list[list[int]] = table.tolist()
    return cells
