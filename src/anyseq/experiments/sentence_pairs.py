"""Sentences and their translations: Tatoeba's English and German from the user's disk, or
arithmetic that is to be written the other way round."""

from __future__ import annotations

import random
from typing import NamedTuple

from anyseq.experiments.data import Data, check_count

_TATOEBA = "deu.txt.gz", "ad109252de3e35f8ec8030669ccddf6ee2f5cc1656c1928468e175233c01eb1d"
_TATOEBA_PAIRS = 50_001
_GENERATED = 20_000
_HELD_OUT = 0.05  # of the distinct sentences
_OPERATORS = {"+": "plus", "-": "minus", "*": "times", "/": "over"}

Pair = tuple[str, str]


class Pairs(NamedTuple):
    """Both parts in a random order, always the same; no sentence is in both."""

    train: list[Pair]
    test: list[Pair]


def sentence_pairs(data: Data) -> Pairs:
    """(English, German) if the data has a folder; otherwise generated ones."""
    data = data.within("tatoeba_ende")
    pairs = _generated() if data.folder is None else _tatoeba(data)
    shuffled = random.Random(0)
    sentences = sorted({source for source, _ in pairs})
    held_out = set(shuffled.sample(sentences, round(_HELD_OUT * len(sentences))))
    shuffled.shuffle(pairs)
    parts: tuple[list[Pair], list[Pair]] = ([], [])
    for pair in pairs:
        parts[pair[0] in held_out].append(pair)
    return Pairs(*parts)


def _tatoeba(data: Data) -> list[Pair]:
    lines = data.read(*_TATOEBA).decode().split("\r\n")[1:-1]  # without the header
    check_count("pairs", len(lines), _TATOEBA_PAIRS)
    return [(source, target) for source, target in (line.split("\t") for line in lines)]


def _generated() -> list[Pair]:
    """An expression in brackets, and in words with each operator after what it takes: where a word
    comes from follows from the structure of the whole."""
    rng = random.Random(0)
    return sorted({_expression(rng, rng.randint(1, 4)) for _ in range(_GENERATED)})


def _expression(rng: random.Random, operators: int) -> Pair:
    if operators == 0:
        letter = rng.choice("abcdefghijkl")
        return letter, letter
    left = rng.randrange(operators)
    (a, a_after), (b, b_after) = (
        _expression(rng, part) for part in (left, operators - 1 - left)
    )
    sign = rng.choice("+-*/")
    return f"( {a} {sign} {b} )", f"{a_after} {b_after} {_OPERATORS[sign]}"
