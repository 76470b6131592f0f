"""ALiBi's softmax has no uniform head, but the means that many slopes give are one rational
function of q = e^-slope, which goes on to q = 1, where it is the plain mean (docs/theorems.md,
"Equivariant functions")."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest
import torch

import anyseq as aq
from verdicts import classes
from verdicts.heads import Heads

N, LETTERS = 3, (0, 1, 2)
SLOPES = [Fraction(2, 5), *(Fraction(k, 10) for k in range(5, 10))]
"""q between e^-1 and e^-(2^-8), as ALiBi's slopes have them; one more than determine the function:
two polynomials of degree 2, up to a factor."""


def mean(x: tuple[int, ...], i: int, letter: int, q: Fraction) -> Fraction:
    """The weight that token i gives to a letter."""
    weights = [q ** abs(i - j) for j in range(len(x))]
    return sum(
        (weight for weight, one in zip(weights, x, strict=True) if one == letter), Fraction(0)
    ) / sum(weights)


def continued(values: list[Fraction], q: list[Fraction]) -> Fraction:
    """The value at 1 of the rational function of least degree through these points."""
    for degree in range(len(q)):
        # N(q) - v D(q) = 0 for the coefficients of N and D
        rows = [
            [*(a**k for k in range(degree + 1)), *(-v * a**k for k in range(degree + 1))]
            for a, v in zip(q, values, strict=True)
        ]
        found = kernel(rows)
        if found is not None:
            numerator, denominator = found[: degree + 1], found[degree + 1 :]
            return sum(numerator, Fraction(0)) / sum(denominator, Fraction(0))
    raise AssertionError("more points than a function of such a degree needs")


def kernel(rows: list[list[Fraction]]) -> list[Fraction] | None:
    """A vector that all rows map to 0; None if there is only 0."""
    rows, width, pivots = [list(row) for row in rows], len(rows[0]), list[int]()
    for column in range(width):
        place = len(pivots)
        pivot = next((r for r in range(place, len(rows)) if rows[r][column]), None)
        if pivot is None:
            free = [Fraction(0)] * width
            free[column] = Fraction(1)
            for row, at in enumerate(pivots):
                free[at] = -rows[row][column] / rows[row][at]
            return free
        rows[place], rows[pivot] = rows[pivot], rows[place]
        for r in range(len(rows)):
            if r != place and rows[r][column]:
                factor = rows[r][column] / rows[place][column]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[place], strict=True)]
        pivots.append(column)
    return None


def read_off(x: tuple[int, ...], i: int) -> tuple[Fraction, ...]:
    """How often each letter occurs, from what token i is told for several slopes; it does not know
    where it is."""
    return tuple(
        N * continued([mean(x, i, letter, q) for q in SLOPES], SLOPES) for letter in LETTERS
    )


def test_heads_compute_these_means() -> None:
    """By the module itself, with its own slopes."""
    design = aq.Design(N, position=aq.ALiBi())
    heads = Heads(design, 0, features=2, heads=8, size=2)
    heads.weight("v")[:] = torch.eye(2)
    for x in product(LETTERS[:2], repeat=N):
        given = torch.nn.functional.one_hot(torch.tensor([x]), 2).double()
        told = heads(given)[0, :, :, 1]
        for i, h in product(range(N), range(8)):
            q = Fraction(math.exp(-aq.ALiBi().slopes(8)[h]))
            assert abs(float(told[i, h]) - float(mean(x, i, 1, q))) < 1e-12


def test_every_token_reads_off_the_multiset() -> None:
    for x in product(LETTERS, repeat=N):
        many = Counter(x)
        for i in range(N):
            assert read_off(x, i) == tuple(many[letter] for letter in LETTERS)


def test_one_slope_does_not_tell_multisets_apart() -> None:
    """Planted: at the root of q + q² = 1, a head gives as much weight to the token itself as to two
    others, and a token with equal neighbours takes them for itself."""
    q = Fraction((math.sqrt(5) - 1) / 2)
    half = mean((0, 1, 1), 0, 1, q), mean((0, 1, 1), 0, 0, q)
    assert abs(half[0] - half[1]) < Fraction(1, 10**15)
    assert read_off((0, 1, 1), 0) == tuple(map(Fraction, (1, 2, 0)))


@pytest.mark.parametrize("pattern", [aq.Full(), aq.PerHead(aq.Full(), aq.Causal())], ids=str)
@pytest.mark.parametrize("tokens", [2, 3, 4])
def test_what_full_layers_with_slopes_tell_apart(pattern: aq.Pattern, tokens: int) -> None:
    """Own token and multiset at every place: that is enough for every equivariant function."""
    design = aq.Design(tokens, pattern, aq.ALiBi(), depth=2)
    assert aq.check(design, target="equivariant").universal
    sequences = classes.words(tokens, 3)
    wanted = classes.allowed(design, "equivariant", sequences)
    assert classes.confused(classes.coloured(design, sequences, depth=1), wanted) is None


def test_where_slopes_do_not_help() -> None:
    """No place is told on equal tokens, nor from its mirror image; and hardmax, which counts only
    the nearest of each kind, is not known to average."""
    design = aq.Design(4, position=aq.ALiBi())
    assert aq.check(design).universal is False
    assert aq.check(design, norm="lp").universal is False
    sequences = classes.words(4, 2)
    colours = classes.coloured(design, sequences)
    assert colours[(0, 0, 0, 0), 0] == colours[(0, 0, 0, 0), 1]
    assert all(colours[x, i] == colours[x[::-1], 3 - i] for x in sequences for i in range(4))
    rough = aq.Design(4, position=aq.ALiBi(), prob_map="hardmax")
    assert aq.check(rough, target="equivariant").universal is None
    wanted = classes.allowed(rough, "equivariant", sequences)
    x, y = classes.confused(classes.coloured(rough, sequences, depth=1), wanted)
    assert sorted(x[0]) != sorted(y[0])
