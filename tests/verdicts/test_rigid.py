"""Theorem 2 against networks: if all tokens differ, outputs repeat only where they must, and one
feed-forward half over them is any function."""

from __future__ import annotations

from itertools import permutations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

import anyseq as aq
from anyseq.base import generator
from verdicts.designs import designs
from verdicts.gallery import rows
from verdicts.networks import random_network

SAME = 1e-10  # of outputs whose largest is 1


def orders(tokens: int) -> list[tuple[int, ...]]:
    """All orders of few tokens; of many the rotations, forward and backward, and some at random."""
    if tokens <= 4:
        return list(permutations(range(tokens)))
    turned = [(*range(k, tokens), *range(k)) for k in range(tokens)]
    rng = generator(0)
    mixed = [tuple(torch.randperm(tokens, generator=rng).tolist()) for _ in range(8)]
    return list(dict.fromkeys([*turned, *(order[::-1] for order in turned), *mixed]))


def outputs(design: aq.Design, moved: float = 0.0) -> torch.Tensor:
    """(orders · n, features) of a deep random network, for each order of n different tokens and
    each place. moved: how far every token has been moved."""
    n = design.tokens
    x = (torch.linspace(0.1, 0.9, n, dtype=torch.float64) ** 1.5)[torch.tensor(orders(n))]
    x = x + moved * torch.randn(x.shape, generator=generator(2), dtype=torch.float64)
    beside = 4 if design.block_norm is None else 1
    dim, heads = 24 // beside, 12 // beside
    model = random_network(design, 1, depth=2 * n + 2, dim=dim, heads=heads, beside=beside)
    with torch.no_grad():
        out: torch.Tensor = model(x[..., None].expand(-1, -1, model.dim).contiguous())
    return out.flatten(0, 1)


def heard(tokens: int, target: str) -> list[tuple[tuple[int, ...], int]]:
    """What f_i may depend on, for each order and each place i."""
    return [
        (order if target == "all" else order[: i + 1], i)
        for order in orders(tokens)
        for i in range(tokens)
    ]


class LookUp:
    """ReLUs along one direction of the outputs, as in the last half of a block: they take given
    values at given outputs, linearly in between. Where outputs are equal, values must be."""

    def __init__(self, out: torch.Tensor, values: torch.Tensor) -> None:
        self.size = out.abs().amax(0)
        directions = torch.randn(out.shape[1], 64, generator=generator(0), dtype=torch.float64)
        lines = (out / self.size) @ directions
        steps = lines.sort(0).values.diff(dim=0)
        smallest = steps.where(steps > SAME, torch.inf).amin(0)
        self.direction = directions[:, smallest.argmax()]
        at, order = self.line(out).sort()
        first = torch.cat([torch.ones(1).bool(), at.diff() > SAME])
        values = values[order]
        assert (values == values[first][first.cumsum(0) - 1]).all(), "equal outputs, other values"
        self.at, self.start = at[first], values[0]
        slopes = values[first].diff(dim=0) / self.at.diff()[:, None]
        self.bends = slopes.diff(dim=0, prepend=torch.zeros(1, values.shape[1]))

    def line(self, out: torch.Tensor) -> torch.Tensor:
        return (out / self.size) @ self.direction

    def __call__(self, out: torch.Tensor) -> torch.Tensor:
        hidden = (self.line(out)[:, None] - self.at[:-1]).relu()
        return self.start + hidden @ self.bends


def fits(design: aq.Design, target: str) -> None:
    """One network with one look-up takes f_i = i and random values on all these sequences, and
    nearly so when tokens move by a hair."""
    keys = heard(design.tokens, target)
    number = {key: k for k, key in enumerate(dict.fromkeys(keys))}
    random = torch.rand(len(number), generator=generator(3), dtype=torch.float64)
    chosen = random[[number[key] for key in keys]]
    values = torch.stack([torch.tensor([float(i) for _, i in keys]), chosen], dim=1).double()
    look_up = LookUp(outputs(design), values)
    for moved, tolerance in ((0.0, 1e-8), (1e-12, 1e-3)):
        assert (look_up(outputs(design, moved)) - values).abs().max() < tolerance


@given(
    designs(feedforward=True, final_norm=None, depth=None)
    | designs(mixers=True, feedforward=True, final_norm=None, depth=None),
    st.sampled_from(["all", "causal"]),
)
@settings(max_examples=120, deadline=None)
def test_outputs_over_all_orders_of_the_tokens(design: aq.Design, target: str) -> None:
    """What is universal in L^p fits; a symmetry makes outputs repeat in every network."""
    verdict = aq.check(design, norm="lp", target=target)
    assert verdict.reach is not None
    raw = any(layer.mixer == aq.LinearAttention(normalised=False) for layer in design.layer_cycle)
    if raw or design.tokens == 1:
        return  # deep networks of raw linear attention overflow; one token has one order
    if verdict.universal:
        fits(design, target)
    elif verdict.reach.holds and target == "all" and design.tokens <= 4:  # all orders are there
        out = outputs(design)
        apart = torch.cdist(out / out.abs().max(), out / out.abs().max(), p=torch.inf)
        assert len(torch.unique((apart < SAME).long(), dim=0)) < len(out)


RIGID = [
    (line, design, target)
    for line, design, verdicts in rows()
    for target in ("all", "causal")
    if verdicts["lp", target] and not verdicts["sup", target]
]


@pytest.mark.parametrize(("line", "design", "target"), RIGID, ids=[f"{r[0]} {r[2]}" for r in RIGID])
def test_the_gallery(line: str, design: aq.Design, target: str) -> None:
    fits(design, target)


def test_a_symmetry_leaves_nothing_to_look_up() -> None:
    with pytest.raises(AssertionError, match="equal outputs"):
        fits(aq.Design(4, position=aq.NoPosition()), "all")
