"""Which backend a call gets, and what is said about it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import anyseq as aq
from anyseq.errors import InvalidArgument


def plan(n: int = 4096, batch: int = 1, learns: bool = False, **arguments: Any) -> aq.AttentionPlan:
    q = torch.zeros(1, 1, n, 16, requires_grad=learns).expand(batch, -1, -1, -1)
    return aq.attention_plan(q, q, q, **arguments)


def table(n: int, learns: bool = False) -> aq.Toeplitz:
    return aq.Toeplitz(torch.zeros(1, 2 * n - 1, requires_grad=learns))


def everywhere(b: Any, h: Any, i: Any, j: Any) -> Any:
    return i >= j


def training(n: int, batch: int = 64) -> dict[str, Any]:
    return {"n": n, "batch": batch, "learns": True}


def unchanged(x: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return x


@pytest.mark.parametrize(
    ("backend", "reason", "arguments"),
    [
        ("sdpa", "nothing is masked", {}),
        ("sdpa", "nothing is masked", {"pattern": aq.Full()}),
        ("sdpa", "the future", {"is_causal": True}),
        ("sdpa", "nothing is masked", training(512)),
        ("sdpa", "ms dense", {"pattern": everywhere}),
        ("sdpa", "a function", {"pattern": aq.FromMask(everywhere)}),
        ("sdpa", "short", {"n": 100, "pattern": aq.Window(3)}),
        ("native", "ms in tiles", {"n": 512, "pattern": aq.Window(3)}),
        ("native", "ms in tiles", {"pattern": aq.BigBird(32), "key_mask": torch.ones(1, 4096) > 0}),
        ("native", "ms in tiles", {"pattern": aq.Star(3), "gain": table(4096)}),
        ("native", "ms in tiles", {"pattern": aq.Star(3), "return_lse": True}),
        ("sdpa", "ms dense", {"n": 1024, "pattern": ~aq.Window(3)}),
        ("native", "ms in tiles", {"gain": table(4096)}),
        ("native", "ms in tiles", {"softcap": 5.0}),
        ("native", "ms in tiles", {"return_lse": True}),
        ("native", "ms in tiles", {"gain": table(512), "n": 512, "pattern": everywhere}),
        ("native", "ms in tiles", {**training(512, 4), "bias": table(512, learns=True)}),
        ("sdpa", "dense", {**training(512, 4), "bias": table(512)}),
        ("native", "ms in tiles", {**training(64), "pattern": aq.Window(3)}),
        ("native", "ms in tiles", {"n": 64, "batch": 64, "gain": table(64)}),
        ("reference", "short", {"n": 8, "gain": table(8)}),
        ("reference", "short", {"n": 16, "return_lse": True}),
        ("sdpa", "short", {**training(8, batch=1), "bias": torch.zeros(8, 8)}),
        ("sdpa", "nothing is masked", {**training(64), "dropout_p": 0.5}),
        ("reference", "a hook", {"n": 64, "score_mod": unchanged}),
        ("reference", "a hook", {"n": 64, "weight_mod": unchanged}),
        ("reference", "another map", {"n": 64, "prob_map": "hardmax"}),
        ("tiles", "some rows at a time", {"n": 5000, "score_mod": unchanged}),
    ],
)
def test_the_backend_and_the_reason(backend: str, reason: str, arguments: dict[str, Any]) -> None:
    made = plan(**arguments)
    assert made.backend == backend, made
    assert reason in made.reason
    assert made.backend not in made.refused


@pytest.mark.parametrize(
    "arguments", [{}, {"gain": table(4096)}, {"pattern": aq.Window(3)}, {"n": 8}]
)
def test_sdpa_never_gives_the_log_sum_exp(arguments: dict[str, Any]) -> None:
    made = plan(**arguments, return_lse=True)
    assert made.backend != "sdpa"
    assert "sdpa" in made.refused


def test_it_says_how_much_is_computed() -> None:
    made = plan(pattern=aq.Window(3))
    assert made.dense_scores == 4096**2
    assert 7 * 4096 < made.scores < made.dense_scores / 20
    assert plan().scores == plan().dense_scores
    two = torch.zeros(2, 3, 4096, 16)
    assert aq.attention_plan(two, two, two, pattern=aq.Window(3)).scores == 6 * made.scores


@pytest.mark.parametrize("arguments", [{}, {"pattern": aq.Star(3), "gain": table(4096)}])
def test_it_reads_well(arguments: dict[str, Any]) -> None:
    lines = str(plan(**arguments)).splitlines()
    assert lines[0].startswith(("sdpa: ", "native: "))
    assert "scores (" in lines[1]
    assert all(line.startswith("not ") for line in lines[2:])
    assert max(map(len, lines)) <= 100


def test_nothing_is_computed() -> None:
    """NaN would be an error, and 2^60 scores would not fit anywhere."""
    q = torch.full((1, 1, 1, 1), torch.nan).expand(1, 1, 1 << 30, 1)
    assert aq.attention_plan(q, q, q).dense_scores == 1 << 60


@pytest.mark.parametrize(
    ("backend", "arguments", "reason"),
    [
        ("sdpa", {"gain": table(8)}, "nothing after the softmax, so no gain"),
        ("sdpa", {"return_lse": True}, "keeps the log-sum-exp to itself"),
        ("sdpa", {"score_mod": unchanged}, "without score_mod and weight_mod"),
        ("sdpa", {"prob_map": "hardmax"}, "it computes softmax"),
        ("native", {"score_mod": unchanged}, "without score_mod and weight_mod"),
        ("native", {"weight_mod": unchanged}, "without score_mod and weight_mod"),
        ("sdpa", {"softcap": 1.0}, "it has no softcap"),
        ("flex", {"prob_map": "hardmax"}, "it computes softmax only"),
        ("flex", {"weight_mod": unchanged}, "no hook after the softmax"),
        ("flex", {"dropout_p": 0.5}, "no dropout"),
        ("flex", {"bias": torch.zeros(8, 8, requires_grad=True)}, "no backward pass on the CPU"),
    ],
)
def test_an_impossible_backend_says_why(
    backend: str, arguments: dict[str, Any], reason: str
) -> None:
    q = torch.zeros(1, 1, arguments.get("n", 8), 4)
    arguments = {name: value for name, value in arguments.items() if name != "n"}
    with pytest.raises(InvalidArgument, match=f"backend='{backend}' cannot do this: .*{reason}"):
        aq.attention(q, q, q, backend=backend, **arguments)


@pytest.mark.parametrize("pattern", [None, aq.Window(3), ~aq.Causal()])
def test_flex_has_a_gain_by_three_log_sum_exps(pattern: aq.Pattern | None) -> None:
    """Uncompiled, so that it runs on the CPU in float64; with gains of both signs, and 0."""
    rng = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 2, 40, 16, dtype=torch.float64, generator=rng) for _ in range(3))
    bias, gain = (torch.randn(2, 79, dtype=torch.float64, generator=rng) for _ in range(2))
    gain[:, ::5] = 0
    arguments: dict[str, Any] = {"bias": aq.Toeplitz(bias), "gain": aq.Toeplitz(gain)}
    found, expected = (
        aq.attention(q, k, v, pattern=pattern, backend=backend, return_lse=True, **arguments)
        for backend in ("flex", "reference")
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_flex_takes_inputs_that_could_have_gradients() -> None:
    q, k, v = (torch.randn(1, 1, 9, 16, requires_grad=True) for _ in range(3))
    with torch.no_grad():
        lse = [
            aq.attention(q, k, v, backend=backend, return_lse=True)[1]
            for backend in ("flex", "reference")
        ]
    torch.testing.assert_close(*lse)
