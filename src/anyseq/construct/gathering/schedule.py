"""Which token takes which slot from which, hop by hop, as early as possible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from anyseq.design import Design
from anyseq.errors import ConstructionFault


@dataclass(frozen=True)
class Taking:
    """One slot in one hop by one pattern of the layer: the vertex from which each vertex takes
    it."""

    slot: int
    part: int
    source: Mapping[int, int]


def asked_slots(design: Design, wanted: str) -> list[set[int]]:
    """What each token must hold: "all" slots, or for "causal" functions those up to its own."""
    tokens = design.tokens
    return [set(range(tokens if wanted == "all" else token + 1)) for token in range(tokens)]


def schedule(design: Design, wanted: str, phase: int) -> list[list[Taking]]:
    """What is taken in each layer from pattern `phase` of the cycle on, at least one layer; nothing
    where a layer brings nothing new."""
    bos, size, cycle = design.bos, design.size, design.cycle
    masks = [[part.mask(size) for part in pattern.heads()] for pattern in cycle]
    held = [{vertex - bos} if vertex >= bos else set() for vertex in range(size)]
    asked = asked_slots(design, wanted)
    layers: list[list[Taking]] = []
    while not layers or any(not want <= have for want, have in zip(asked, held[bos:], strict=True)):
        takings = _takings(masks[(phase + len(layers)) % len(masks)], held, design.tokens)
        for taking in takings:
            for vertex in taking.source:
                held[vertex].add(taking.slot)
        layers.append(takings)
        if len(layers) > len(masks) and not any(layers[-len(masks) :]):
            raise ConstructionFault(f"{design}: slots do not reach every token")
    return layers


def _takings(masks: list[torch.Tensor], held: list[set[int]], tokens: int) -> list[Taking]:
    """Every vertex takes every slot that it lacks and that some vertex it attends to has."""
    takings = []
    for slot in range(tokens):
        has = torch.tensor([slot in have for have in held])
        lacks = ~has
        for part, mask in enumerate(masks):
            offers = mask & has & lacks[:, None]
            source = first_sources(offers)
            if source:
                takings.append(Taking(slot, part, source))
                lacks = lacks & ~offers.any(1)
    return takings


def first_sources(offers: torch.Tensor) -> dict[int, int]:
    """offers: (vertices, vertices) bool. The vertex from which each vertex with an offer takes
    it."""
    return {v: int(row.nonzero()[0]) for v, row in enumerate(offers) if bool(row.any())}
