"""Which places of which sequences a design can tell apart, by brute force over all sequences.

Colours of pairs (sequence, place) start from the token itself, and take, layer after layer, what
the half that mixes tokens sees of the others: written from the definitions in docs/theorems.md, for
few tokens, a small alphabet, and every map but top-k.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import permutations, product
from math import gcd
from typing import Any

import anyseq as aq
from verdicts import naive

Tokens = tuple[int, ...]
Colours = dict[tuple[Tokens, int], int]

_PRIME = (1 << 61) - 1
_POINTS = (1_234_567_891_011, 987_654_321_987_654_321, 31_415_926_535_897)


def words(tokens: int, letters: int) -> list[Tokens]:
    """All sequences over so many letters."""
    return list(product(range(letters), repeat=tokens))


def without_repeats(tokens: int, letters: int) -> list[Tokens]:
    """All sequences whose tokens differ."""
    return list(permutations(range(letters), tokens))


def coloured(design: aq.Design, sequences: Iterable[Tokens], depth: int | None = None) -> Colours:
    """Equal numbers = no network of the design tells the pairs (sequence, place) apart; depth: its
    number of layers, the design's own unless given, or until nothing changes."""
    bos, size = int(design.bos), design.tokens + design.bos
    told, sequences = naive.start(design), list(sequences)
    layers = [
        [_Half(layer, mask, size) for mask in heads]
        for layer, heads in zip(design.layer_cycle, naive.masks(design), strict=True)
    ]
    whole = {x: ("BOS",) * bos + x for x in sequences}
    colour = _numbered({x: [(whole[x][i], told[i]) for i in range(size)] for x in sequences})
    depth = design.depth if depth is None else depth
    many, still, turn = _many(colour), 0, 0
    while turn != depth and still < len(layers):
        heads = layers[turn % len(layers)]
        colour = _numbered(
            {
                x: [(row[i], *(head.seen(i, row) for head in heads)) for i in range(size)]
                for x, row in colour.items()
            }
        )
        turn, before, many = turn + 1, many, _many(colour)
        still = still + 1 if many == before else 0
    return {(x, i): row[i + bos] for x, row in colour.items() for i in range(design.tokens)}


def allowed(
    design: aq.Design, target: str, sequences: Iterable[Tokens]
) -> dict[tuple[Tokens, int], Hashable]:
    """What functions of the target class may depend on, at every place that is read."""
    n, readout = design.tokens, design.readout
    places = list(range(n))
    if readout != "all":
        places = [n - 1 if readout == "last" else int(readout)]
    content = {
        "all": lambda x, i: (x, i),
        "causal": lambda x, i: (x[: i + 1], i),
        "equivariant": lambda x, i: (x[i], tuple(sorted(x))),
    }[target]
    return {(x, i): content(x, i) for x in sequences for i in places}


def confused(colours: Colours, wanted: dict[tuple[Tokens, int], Hashable]) -> Any:
    """Two pairs of one colour at which the target may want different values; None if there are
    none."""
    first: dict[int, tuple[Tokens, int]] = {}
    for pair, value in wanted.items():
        known = first.setdefault(colours[pair], pair)
        if wanted[known] != value:
            return known, pair
    return None


def _numbered(keys: dict[Tokens, list[Any]]) -> dict[Tokens, list[int]]:
    names: dict[Any, int] = {}
    return {x: [names.setdefault(key, len(names)) for key in row] for x, row in keys.items()}


def _many(colour: dict[Tokens, list[int]]) -> int:
    return len({number for row in colour.values() for number in row})


class _Half:
    """One head, or a mixer, of a layer."""

    def __init__(self, layer: aq.Layer, mask: naive.Mask, size: int) -> None:
        self.layer = layer
        self.sees = [[j for j in range(size) if mask[i][j]] for i in range(size)]
        self.labels = {}
        if layer.attends:
            self.labels = {
                (i, j): naive.label(layer, i, j) for i in range(size) for j in self.sees[i]
            }
        self.known: dict[tuple[int, Tokens], Hashable] = {}

    def seen(self, i: int, row: Sequence[int]) -> Hashable:
        """What place i sees of the colours of a row."""
        colours = tuple(row[j] for j in self.sees[i])
        if (i, colours) not in self.known:
            look = self._attended if self.layer.attends else self._mixed
            self.known[i, colours] = look(i, colours)
        return self.known[i, colours]

    def _mixed(self, i: int, colours: Tokens) -> Hashable:
        count = Counter(colours)
        match self.layer.mixer:
            case aq.Convolution():  # Σ_o W_o x_(i-o), any W_o
                return tuple((i - j, c) for j, c in zip(self.sees[i], colours, strict=True))
            case aq.Recurrence():  # Σ_d a^d x_(i-d) for every a between 0 and 1
                return tuple((i - j, c) for j, c in zip(self.sees[i], colours, strict=True))
            case aq.Bilinear():  # Σ_j P_ij x_j, any P
                return (i, self.sees[i][0], colours) if colours else "nothing"
            case aq.LinearAttention(normalised=False):  # Σ_j v(x_j)
                return tuple(sorted(count.items()))
        return _shares(sorted(count), [count[c] for c in sorted(count)])  # Σ_j v(x_j) / Σ_j 1

    def _attended(self, i: int, colours: Tokens) -> Hashable:
        layer = self.layer
        position = layer.position.base if isinstance(layer.position, aq.URPE) else layer.position
        table: Counter[tuple[Any, Any]] = Counter()  # of (label, column)
        for j, c in zip(self.sees[i], colours, strict=True):
            bias, gain = self.labels[i, j]
            table[bias, (gain, c)] += 1
        slopes, name = isinstance(position, aq.ALiBi), layer.probability.name
        if layer.sinks:
            # a key whose score is free, or at distance 0 and of a colour of its own
            table[0 if slopes else 10**9, (10**9, -1)] += 1
        if not table:
            return "nothing"
        if slopes:
            return {"softmax": _rational, "hardmax": _nearest}.get(name, _supported)(table)
        return _free(table, counted=name in ("sparsemax", "entmax15"))


def _free(table: Counter[tuple[Any, Any]], counted: bool) -> Hashable:
    """Any bias for each label: T up to a factor (softmax, hardmax) or itself (sparsemax, entmax);
    shares of columns if its rank is one and, for the latter, it has one colour."""
    rows = sorted({r for r, _ in table})
    columns = sorted({c for _, c in table})
    matrix = [[table[r, c] for c in columns] for r in rows]
    sums = [sum(column) for column in zip(*matrix, strict=True)]
    alike = all(
        sum(line) * sums[c] == line[c] * sum(sums) for line in matrix for c in range(len(columns))
    )
    if alike and (not counted or len({colour for _, colour in columns}) == 1):
        return _shares(columns, sums)
    flat = [entry for line in matrix for entry in line]
    if counted:
        return "table", tuple(rows) if len(rows) > 1 else (), tuple(columns), tuple(flat)
    return "up to a factor", tuple(rows), _shares(columns, flat)


def _rational(table: Counter[tuple[Any, Any]]) -> Hashable:
    """ALiBi's softmax: Σ over the keys of a column of q^distance, over the sum for all keys, as
    functions of q; at some points of a large field."""
    columns = sorted({c for _, c in table})
    values = []
    for q in _POINTS:
        sums = [sum(n * pow(q, r, _PRIME) for (r, c), n in table.items() if c == column) % _PRIME
                for column in columns]  # fmt: skip
        inverse = pow(sum(sums) % _PRIME, -1, _PRIME)
        values.append(tuple(one * inverse % _PRIME for one in sums))
    return tuple(columns), tuple(values)


def _nearest(table: Counter[tuple[Any, Any]]) -> Hashable:
    """ALiBi's hardmax: the nearest keys of each colour."""
    least: dict[Any, int] = {}
    for r, (_, colour) in table:
        least[colour] = min(r, least.get(colour, r))
    kept = {entry: n for entry, n in table.items() if entry[0] == least[entry[1][1]]}
    low, common = min(least.values()), gcd(*kept.values())
    return tuple(sorted((r - low, c, n // common) for (r, c), n in kept.items()))


def _supported(table: Counter[tuple[Any, Any]]) -> Hashable:
    """ALiBi's sparsemax and entmax15, of few keys: each may have weight, as the smallest slope is
    2^-8."""
    if len({c for _, c in table}) == 1:
        return tuple({c for _, c in table})
    low = min(r for r, _ in table)
    return tuple(sorted((r - low, c, n) for (r, c), n in table.items()))


def _shares(names: Sequence[Any], numbers: Sequence[int]) -> Hashable:
    common = gcd(*numbers) or 1
    return "shares", tuple(names), tuple(number // common for number in numbers)
