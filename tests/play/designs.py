"""Random designs, as the page takes them and as the library does."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

import anyseq as aq
import anyseq.play
from anyseq.patterns import FromMask, parse_pattern
from anyseq.positions import parse_position

POSITIONS = (
    "none", "absolute", "sinusoidal", "rope", "alibi", "t5", "relative", "shaw", "urpe",
    "urpe(none)", "urpe(absolute)", "urpe(rope)", "urpe(alibi)", "urpe(t5)", "urpe(shaw)",
)  # fmt: skip
PATTERNS = (
    "full", "causal", "window(0)", "window(1)", "window(3)", "dilated(1, 2)", "dilated(2, 3)",
    "logsparse", "residue(3)", "strided(2)", "strided(3)", "blocks(2)", "blocks(3)", "fixed(2)",
    "fixed(4)", "ring(1)", "ring(2)", "star(1)", "longformer(0)", "longformer(2)", "global(0)",
)  # fmt: skip

PAGE = Path(anyseq.play.__file__).parent / "page" / "index.html"

Mask = list[list[bool]]


@dataclass(frozen=True)
class Case:
    """A design, for the page and for the library."""

    tokens: int
    bos: bool
    masks: tuple[Mask, ...]
    position: str
    depth: int | None

    @property
    def for_page(self) -> dict[str, Any]:
        return {
            "tokens": self.tokens,
            "bos": self.bos,
            "masks": list(self.masks),
            "position": self.position,
            "depth": self.depth,
        }

    @cached_property
    def design(self) -> aq.Design:
        return aq.Design(
            self.tokens,
            patterns=tuple(FromMask(torch.tensor(mask)) for mask in self.masks),
            position=parse_position(self.position),
            bos=self.bos,
            depth=self.depth,
        )


def a_mask(rng: random.Random, size: int) -> Mask:
    """A named pattern, one with some pairs changed, a random or a symmetric mask, perhaps cut to
    the past."""
    kind = rng.randrange(5)
    mask: Mask = parse_pattern(rng.choice(PATTERNS)).mask(size).tolist()
    if kind == 1:
        for _ in range(rng.randint(1, 3)):
            i, j = rng.randrange(size), rng.randrange(size)
            mask[i][j] = not mask[i][j]
    if kind == 2:
        share = rng.random()
        mask = [[rng.random() < share for _ in range(size)] for _ in range(size)]
    if kind == 3:  # rotations and reversals keep it
        offsets = [rng.random() < 0.4 for _ in range(size)]
        mask = [[offsets[(i - j) % size] for j in range(size)] for i in range(size)]
    if kind == 4:  # some permutation keeps it
        image = list(range(size))
        rng.shuffle(image)
        pairs = [(rng.randrange(size), rng.randrange(size)) for _ in range(size // 2 + 1)]
        mask = [[i == j for j in range(size)] for i in range(size)]
        for i, j in pairs:
            while not mask[i][j] or i == j:
                mask[i][j] = True
                i, j = image[i], image[j]
                if mask[i][j]:
                    break
    if rng.random() < 0.2:
        mask = [[mask[i][j] and j <= i for j in range(size)] for i in range(size)]
    return mask


def cases(count: int) -> list[Case]:
    rng = random.Random(0)
    made = []
    for _ in range(count):
        tokens, bos = rng.choice((1, 2, 3, 4, 5, 6, 6, 8, 10, 12)), rng.random() < 0.4
        masks = tuple(a_mask(rng, tokens + bos) for _ in range(rng.choice((1, 1, 1, 2))))
        depth = rng.choice((None, None, 1, 2, 3, 4, 6))
        made.append(Case(tokens, bos, masks, rng.choice(POSITIONS), depth))
    return made
