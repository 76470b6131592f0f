"""What witnesses are made of, by itself."""

from collections.abc import Iterator
from math import lcm
from typing import Any

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

import anyseq as aq
from anyseq.graph import reach, refine, symmetry
from anyseq.verdicts.witnesses import _cycle_lengths, _of_small_order


@given(st.lists(st.integers(1, 9), min_size=1, max_size=7))
def test_a_power_of_small_order(lengths: list[int]) -> None:
    """It is a power of σ, found by walking through all of them; not the identity unless σ is; and
    comes back after twice as many steps as there are tokens at most."""
    sigma, start = np.arange(sum(lengths)), 0
    for length in lengths:
        sigma[start : start + length] = np.roll(sigma[start : start + length], 1)
        start += length
    found = _of_small_order(sigma)
    powers, power = [], sigma
    for _ in range(lcm(*lengths)):
        powers.append(power.tobytes())
        power = sigma[power]
    assert found.tobytes() in powers
    identity = np.arange(len(sigma))
    assert np.array_equal(found, identity) == np.array_equal(sigma, identity)
    assert lcm(*_cycle_lengths(found)) <= 2 * len(sigma)


def random_designs(seed: int, count: int, **more: Any) -> Iterator[aq.Design]:
    rng = torch.Generator().manual_seed(seed)
    for _ in range(count):
        tokens = int(torch.randint(3, 7, (1,), generator=rng))
        mask = torch.rand(tokens, tokens, generator=rng) < 0.6
        yield aq.Design(tokens, mask | torch.eye(tokens).bool(), **more)


def test_the_bound_is_half_the_largest_distance_inside_a_class() -> None:
    """Not less, and not more: a network that says the middle of its class errs by that."""
    later = 0
    for design in random_designs(0, 300, position=aq.NoPosition(), sinks=True):
        verdict, found = aq.check(design), refine(design)
        if found.stuck is None or verdict.witness is None or verdict.witness.name != "W1":
            continue
        places = [np.flatnonzero(found.limit == colour) for colour in np.unique(found.limit)]
        assert verdict.witness.bound == max(part[-1] - part[0] for part in places) / 2
        later += found.stuck[0] > 0
    assert later > 5


def test_places_that_look_alike_are_told_whole() -> None:
    """What reaches one is the same as what reaches the other, token 0 among it; and random networks
    err by the bound at least."""
    told = 0
    for design in random_designs(1, 400, position=aq.NoPosition()):
        found = symmetry(design, "causal")
        if found.root is None or found.image is None or not reach(design, "causal").holds:
            continue
        verdict = aq.check(design, norm="lp", target="causal")
        assert verdict.witness is not None
        told += 0 in found.image
        x, y = verdict.witness.sequences
        assert all(y[v] == x[u] for u, v in enumerate(found.image) if v >= 0)
        torch.manual_seed(told)
        model = aq.nn.Transformer(design, dim=8, depth=3, heads=2, norm="none").double()
        for weight in model.parameters():
            torch.nn.init.normal_(weight, 0, 0.7)
        assert verdict.witness.replay(model) >= verdict.witness.bound * (1 - 1e-9)
        if told == 12:
            break
    assert told
