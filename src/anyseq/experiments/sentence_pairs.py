"""Sentences and their translations: Tatoeba's English and German from the user's disk, or
arithmetic to be rewritten in another order."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch

from anyseq.experiments.data import Data, Sources, check_count, sha256_of
from anyseq.experiments.subwords import PAD, Subwords

_TATOEBA = "deu.txt.gz", "ad109252de3e35f8ec8030669ccddf6ee2f5cc1656c1928468e175233c01eb1d"
_TATOEBA_PAIRS = 50_001
_GENERATED = 20_000
_HELD_OUT = 0.05  # of the groups of pairs that share a sentence
_OPERATORS = {"+": "plus", "-": "minus", "*": "times", "/": "over"}

Pair = tuple[str, str]
_Node = tuple[int, str]  # the side of a pair, and a sentence


class Encoded(NamedTuple):
    """source: (rows, tokens), written: (rows, tokens), a translation with PAD after it; texts: the
    translations."""

    source: torch.Tensor
    written: torch.Tensor
    texts: list[str]


class Encodings(NamedTuple):
    """To train on and to be measured on, in one vocabulary for both languages."""

    subwords: Subwords
    train: Encoded
    test: Encoded


@lru_cache(maxsize=1)
def encodings(data: Data, vocab: int, tokens: int, together: int) -> Encodings:
    """Of the sequences that have room, with PAD, in so many tokens."""
    train, test = (passages(part, together) for part in sentence_pairs(data)[:2])
    subwords = Subwords([text for pair in train for text in pair], vocab)

    def encoded(part: Sequence[Pair]) -> Encoded:
        sides = [subwords.ids(side) for side in zip(*part, strict=True)]
        fit = [
            row for row, ids in enumerate(zip(*sides, strict=True)) if max(map(len, ids)) < tokens
        ]
        padded = torch.full((2, len(fit), tokens), PAD)
        for side, lines in zip(padded, sides, strict=True):
            for row, place in zip(side, fit, strict=True):
                row[: len(lines[place])] = torch.tensor(lines[place])
        source, written = padded
        return Encoded(source, written, [part[place][1] for place in fit])

    return Encodings(subwords, encoded(train), encoded(test))


class Pairs(NamedTuple):
    """Both parts in a random order, always the same; no sentence of either language is in both."""

    train: list[Pair]
    test: list[Pair]
    sources: Sources


@lru_cache(maxsize=1)
def sentence_pairs(data: Data) -> Pairs:
    """(English, German) if the data has a folder; otherwise generated ones."""
    data = data.within("tatoeba_ende")
    # an expression's signs are its meaning, a sentence's are not
    pairs, key = (_generated(), str) if data.folder is None else (_tatoeba(data), words)
    groups = joined(pairs, key)
    first: dict[_Node, str] = {}
    for group, (source, _) in zip(groups, pairs, strict=True):
        first[group] = min(source, first.get(group, source))
    shuffled = random.Random(0)
    in_order = sorted(first, key=first.__getitem__)
    held_out = set(shuffled.sample(in_order, round(_HELD_OUT * len(in_order))))
    marked = [(pair, group in held_out) for pair, group in zip(pairs, groups, strict=True)]
    shuffled.shuffle(marked)
    parts: tuple[list[Pair], list[Pair]] = ([], [])
    for pair, is_test in marked:
        parts[is_test].append(pair)
    if data.folder is None:
        return Pairs(*parts, {"generated expressions": sha256_of(repr(parts))})
    return Pairs(*parts, {f"Tatoeba, {_TATOEBA[0]}": _TATOEBA[1]})


def words(sentence: str) -> str:
    """A sentence without capitals, punctuation and spaces that may differ."""
    return " ".join(re.findall(r"\w+", sentence.casefold()))


def joined(pairs: Sequence[Pair], key: Callable[[str], str]) -> list[_Node]:
    """For each pair its group: two that share a source or a target are in one, and so are all that
    a chain of such pairs joins. Sentences with equal keys are equal."""
    above: dict[_Node, _Node] = {}

    def top(node: _Node) -> _Node:
        while (next_one := above.setdefault(node, node)) != node:
            above[node] = above[next_one]  # the way is shorter next time
            node = next_one
        return node

    ends = [((0, key(source)), (1, key(target))) for source, target in pairs]
    for source, target in ends:
        above[top(source)] = top(target)
    return [top(source) for source, _ in ends]


def passages(pairs: Sequence[Pair], together: int) -> list[Pair]:
    """So many sentences one after the other, and their translations in the same order."""
    groups = zip(*[iter(pairs)] * together, strict=False)  # without the rest
    return [(" ".join(a for a, _ in group), " ".join(b for _, b in group)) for group in groups]


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
    (a, a_after), (b, b_after) = (_expression(rng, part) for part in (left, operators - 1 - left))
    sign = rng.choice("+-*/")
    return f"( {a} {sign} {b} )", f"{a_after} {b_after} {_OPERATORS[sign]}"
