"""Method "partition": its bound under attack, its rounding, its memory, and planted errors."""

import math
from decimal import Decimal, localcontext

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import anyseq as aq
from anyseq.construct import Approximation
from anyseq.construct.methods.partition.partition import PartitionRecipe
from anyseq.construct.network.memory import MemoryAttention, MemoryStack
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.functions import FUNCTIONS
from anyseq.errors import WeightsChanged
from construct.inputs import random


def build(name: str, tokens: int, features: int, tol: float) -> Approximation:
    example = FUNCTIONS[name]
    return aq.approximate(
        example,
        aq.Design(tokens),
        features=features,
        tol=tol,
        method="partition",
        lipschitz=example.lipschitz(tokens, features),
    )


def recipe(tokens: int, log_steps: int, sharpness: float) -> PartitionRecipe:
    ask = Ask(aq.Design(tokens), 1, 1, 0.1, "sup", 2.0, lipschitz=1.0, bound=1.0)
    return PartitionRecipe(ask, log_steps, sharpness)


BUILT = {
    ("plus-mean", 1, 1): 0.1,
    ("waves", 2, 1): 0.5,
    ("sort", 3, 1): 0.2,
    ("reverse", 4, 1): 0.2,
    ("attention", 2, 2): 0.4,
}
RESULTS = {case: build(*case, tol) for case, tol in BUILT.items()}


def hard(result: Approximation, count: int, seed: int) -> torch.Tensor:
    """Entries around the middle between two centres, where weights change."""
    rng = torch.Generator().manual_seed(seed)
    step = result.facts.step
    x = (random(result, count, seed) / step).round() * step
    near = torch.randint(-8, 9, x.shape, generator=rng) / 8 * random(result, count, seed + 1)
    return (x + near * step / 16).clamp(0, 1)


@given(st.sampled_from(sorted(RESULTS)), st.integers(0, 10**6))
def test_blocks_and_look_up_agree_and_stay_within_the_bound(
    case: tuple[str, int, int], seed: int
) -> None:
    result = RESULTS[case]
    x = torch.cat([random(result, 10, seed), hard(result, 60, seed)])
    with torch.no_grad():
        blocks = result.model(x)
    rounding = next(term.value for term in result.error.terms if term.name == "rounding")
    assert (blocks - result.fused(x)).abs().max() <= min(rounding, 1e-9)
    assert result.error.upper is not None
    assert (blocks - FUNCTIONS[case[0]](x)).abs().max() <= result.error.upper


@given(
    st.lists(st.floats(0, 0.5), min_size=1, max_size=5),
    st.sampled_from([2.0, 4.0, 16.0, 64.0, 1024.0]),
    st.booleans(),
)
def test_the_constant_bounds_the_mean_distance(
    offsets: list[float], sharpness: float, border: bool
) -> None:
    """E max_a |x_a - G_a| <= δ(1/2 + D(0.13924/κ + 3e^-κ)), by the law of G itself."""
    nodes = range(8) if border else range(-7, 8)
    laws = []
    for t in offsets:
        at = -t if border else t
        weights = [math.exp(-sharpness * ((at - k) ** 2 - t**2)) for k in nodes]
        laws.append([(abs(at - k), w / sum(weights)) for k, w in zip(nodes, weights, strict=True)])
    levels = sorted({distance for law in laws for distance, _ in law})
    mean, below = 0.0, 0.0
    for level in levels:
        within = math.prod(sum(w for distance, w in law if distance <= level) for law in laws)
        mean, below = mean + level * (within - below), within
    axes = len(offsets)
    assert mean <= 0.5 + axes * (0.13924 / sharpness + 3 * math.exp(-sharpness)) + 1e-12


def test_rounding_stays_within_its_term() -> None:
    """The blocks against fifty digits, from the same memory."""
    result = RESULTS["waves", 2, 1]
    model = result.model
    assert isinstance(model, MemoryStack)
    rounding = next(term.value for term in result.error.terms if term.name == "rounding")
    x = torch.cat([random(result, 3), hard(result, 5, 0)])
    key, value = model.get_parameter("memory_key"), model.get_parameter("memory_value")
    with torch.no_grad():
        found = model(x).flatten(1).tolist()
    keys, values = key.tolist(), value.tolist()
    with localcontext() as context:
        context.prec = 50
        for entries, outputs in zip(x.flatten(1).tolist(), found, strict=True):
            query = [*map(Decimal, entries), Decimal(1)]
            scores = [
                sum((q * Decimal(k) for q, k in zip(query, row, strict=True)), Decimal(0))
                for row in keys
            ]
            top = max(scores)
            weights = [(score - top).exp() for score in scores]
            total = sum(weights, Decimal(0))
            for token, output in enumerate(outputs):
                terms = (w * Decimal(v[token]) for w, v in zip(weights, values, strict=True))
                assert abs(sum(terms, Decimal(0)) / total - Decimal(output)) <= Decimal(rounding)
    assert rounding < 1e-9


def test_the_sharpness_is_the_least_that_the_tolerance_allows() -> None:
    coarse = recipe(2, 3, 64.0)
    found = {}
    for tol in (coarse.pointwise * 1.001, 0.0628, 0.0626, 0.06252):
        (made,) = (
            r
            for r in aq.plan(aq.Design(2), 1, tol, lipschitz=1.0).recipes
            if r.method == "partition"
        )
        assert isinstance(made, PartitionRecipe)
        found[tol] = (made.log_steps, made.sharpness)
    assert list(found.values()) == [(3, 64.0), (3, 128.0), (3, 512.0), (3, 2048.0)]


def test_its_network_is_a_stack_of_blocks_with_a_memory() -> None:
    result = build("sort", 3, 1, 0.2)
    model = result.model
    x = random(result, 20)
    assert isinstance(model, MemoryStack)
    assert sum(p.numel() for p in model.parameters()) == result.size.parameters
    blocks = list(model)
    assert [type(block.mixer) for block in blocks] == [aq.nn.Attention, MemoryAttention]
    z = torch.nn.functional.pad(x, (0, model.shape.width - 1)) + model.get_parameter("position")
    with torch.no_grad():
        for block in blocks:
            z = block(z)
        assert torch.equal(z[..., :1], model(x))
    loss = (model(x) - 1).square().mean()
    loss.backward()
    for name in ("memory_key", "memory_value"):
        gradient = model.get_parameter(name).grad
        assert gradient is not None
        assert bool((gradient != 0).any())
    with pytest.raises(IndexError):
        model[2]


def test_a_changed_memory_shows_and_is_noticed() -> None:
    for name in ("memory_key", "memory_value"):
        result = build("sort", 2, 1, 0.3)
        x = random(result, 50)
        before = result(x)
        with torch.no_grad():
            result.model.get_parameter(name)[3] += 2.0
            assert not torch.allclose(result.model(x), before)
        with pytest.raises(WeightsChanged):
            result(x)


def test_what_it_refuses() -> None:
    def refusal(design: aq.Design, tol: float = 0.3, lipschitz: float = 1.0) -> str:
        return aq.plan(design, 1, tol, lipschitz=lipschitz).refused.get("partition", "")

    assert refusal(aq.Design(3)) == ""
    assert "needs absolute positions" in refusal(aq.Design(2, position=aq.NoPosition()))
    assert "at most 8 dimensions" in refusal(aq.Design(9))
    assert "2^21 memory tokens" in refusal(aq.Design(7), tol=0.04)
    assert "round by" in refusal(aq.Design(1), tol=1e-9)
    assert "memory tokens" in refusal(aq.Design(2), tol=1e-18, lipschitz=0.0)
