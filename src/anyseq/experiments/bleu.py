"""BLEU of a corpus, in counts that add up over batches and processes."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

import torch

from anyseq.experiments.experiment import Ratio

_ORDERS = (1, 2, 3, 4)
_NOTHING = 1e-9  # in place of a count of 0 below a line: 0/0 is 0, and any count outweighs it


def bleu_counts(found: Sequence[str], wanted: Sequence[str]) -> dict[str, Ratio]:
    """The parts of BLEU of translations, each with one reference: for n = 1, ..., 4 how many of its
    n-grams are in the reference (each counted at most as often as there), and the numbers of words
    in both."""
    pairs = [(_words(one), _words(other)) for one, other in zip(found, wanted, strict=True)]
    counts = {}
    for n in _ORDERS:
        grams = [(_grams(one, n), _grams(other, n)) for one, other in pairs]
        shared = sum((one & other).total() for one, other in grams)
        counts[f"precision_{n}"] = _ratio(shared, sum(one.total() for one, _ in grams))
    lengths = (sum(len(pair[side]) for pair in pairs) for side in (1, 0))
    return {**counts, "wanted_length": _ratio(*lengths)}


def bleu(means: Mapping[str, float]) -> float:
    """From 0 to 1: the geometric mean of the precisions, and a penalty for output shorter than the
    reference, exp(1 - wanted / found)."""
    precisions = [means[f"precision_{n}"] for n in _ORDERS]
    if min(precisions) == 0.0:
        return 0.0
    mean = math.fsum(map(math.log, precisions)) / len(precisions)
    return math.exp(mean + min(0.0, 1.0 - means["wanted_length"]))


def _words(text: str) -> list[str]:
    """Words, and every punctuation mark by itself."""
    return re.findall(r"\w+|[^\w\s]", text)


def _grams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def _ratio(total: float, items: float) -> Ratio:
    return Ratio(torch.tensor(float(total)), torch.tensor(float(items) or _NOTHING))
