"""What top-k sees of the tables T_i, where scores α_c + β_r are free.

Classes (r, c) of keys are kept from the highest score down until there are k keys, those that tie
with the k-th included; softmax sees what is kept. As scores are pulled apart the output tends to
that of hardmax, so top-k sees all that hardmax sees (`Tables.ratios`): T_i up to a factor, or,
where T_i has rank one, the shares of its columns. What it may see beyond that is the factor, by
which sets of classes have k keys or more.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from anyseq.graph.edges import Array
from anyseq.graph.tables import Tables, either


def surely(tables: Tables, colours: Array, k: int) -> list[bytes]:
    """What is sure to be seen: `ratios`, and of rows that are multiples of each other, which sets
    of colours have k keys, as long as another colour is visible: with these colours on top, the
    others get weight or not. Rows of one rank with several labels are not known to be multiples of
    each other, so that a class that has such a row is not cut."""
    ratios = tables.ratios()
    groups = defaultdict(list)
    for i, group in enumerate(zip(colours.tolist(), ratios, strict=True)):
        groups[group].append(i)
    multiples = ~tables.plain | (tables.labels <= 1)
    keys = list(ratios)
    for rows in groups.values():
        if len(rows) > 1 and multiples[rows].all():
            for i, least in zip(rows, _least_full_set(tables, rows, k, tables.colour), strict=True):
                keys[i] += b"%d" % least
    return keys


def at_most(tables: Tables, colours: Array, k: int) -> list[bytes]:
    """Something of which the output is a function: T_i up to a factor (without its label, if there
    is but one) and which sets of its classes, of whatever kind, have k keys. A single column shows
    nothing but itself, and a row of k keys or fewer what softmax sees."""
    kind = tables.unnamed_kind
    whole = tables.keys(tables.row, [kind, tables.colour], tables.count, divide=True)
    groups = defaultdict(list)
    for i, group in enumerate(zip(colours.tolist(), whole, strict=True)):
        groups[group].append(i)
    label_and_colour = tables.edges.r[tables.kind] * (tables.edges.size + 1) + tables.colour
    for rows in groups.values():
        if len(rows) > 1:
            least = _least_full_set(tables, rows, k, label_and_colour)
            for i, number in zip(rows, least, strict=True):
                whole[i] += b"%d" % number
    soft = (tables.columns <= 1) | (tables.plain & (tables.labels > 1) & (tables.visible <= k))
    return either(soft, tables.ratios(), whole)


def _least_full_set(tables: Tables, rows: list[int], k: int, classes: Array) -> list[int]:
    """Of rows that are multiples m of one table: the least number, divided by m, of keys in a set
    of classes, not all, that has k keys or more; -1 if none has. That number says for each set
    whether it has k keys: sums of parts of one table are the same numbers for all rows.

    classes: (entries,) the class of each entry.
    """
    bounds = np.searchsorted(tables.row, [rows[0], rows[0] + 1])
    mine = slice(*bounds)
    factors = [int(tables.visible[i]) for i in rows]
    if len(set(factors)) == 1:
        return [0] * len(rows)
    unit = int(np.gcd.reduce(tables.count[mine]))
    sizes = np.bincount(
        np.unique(classes[mine], return_inverse=True)[1], weights=tables.count[mine] // unit
    )
    sums = 1  # bit s: some set of classes has s keys
    for size in sizes.astype(int).tolist():
        sums |= sums << size
    total = int(sizes.sum())
    sums &= ~(1 << total)
    found = []
    for visible in factors:
        enough = -(-k * total // visible)  # k / m, rounded up
        above = sums >> enough
        found.append(enough + (above & -above).bit_length() - 1 if above else -1)
    return found
