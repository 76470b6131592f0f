"""Method "fit": the network is the trained net, and no more is said of its error than was seen."""

from pathlib import Path
from typing import Any

import pytest
import torch

import anyseq as aq
from anyseq.construct import Approximation
from anyseq.construct.methods.fit import train
from anyseq.construct.methods.fit.fit import FitRecipe
from anyseq.construct.verbs import search
from anyseq.errors import CannotApproximate, FileProblem, InvalidArgument, WeightsChanged
from construct.inputs import random


def waves(x: torch.Tensor) -> torch.Tensor:
    """One feature in, two out; not equivariant."""
    total = x.cumsum(1)
    return torch.cat([torch.sin(3 * total), total.square() / 4], dim=2)


def fit(f: Any = waves, tokens: int = 2, **changed: Any) -> Approximation:
    usual: dict[str, Any] = {"features": 1, "tol": 0.05, "norm": "mean", "method": "fit"}
    return aq.approximate(f, aq.Design(tokens), **usual | changed)


def inputs(tokens: int = 2, features: int = 1, count: int = 4000) -> torch.Tensor:
    rng = torch.Generator().manual_seed(99)
    return torch.rand(count, tokens, features, generator=rng, dtype=torch.float64)


@pytest.fixture(scope="module")
def result() -> Approximation:
    return fit()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer fresh inputs to measure the error on; `result` above has them all."""
    monkeypatch.setattr(search, "SAMPLES", 4096)
    monkeypatch.setattr(search, "_STARTS", 1024)


def same(one: Approximation, other: Approximation) -> bool:
    return all(
        torch.equal(tensor, other.fused.tensors()[name])
        for name, tensor in one.fused.tensors().items()
    )


def test_the_error_is_measured_and_nothing_is_called_proved(result: Approximation) -> None:
    error, x = result.error, inputs(count=100_000)
    mean = float((waves(x) - result(x)).abs().mean())
    assert result.status == "sampled"
    assert error.upper is None
    assert error.lower <= mean <= 0.05
    assert error.lower > 0.9 * mean
    assert error.level == 0.99
    assert [term.name for term in error.terms] == ["measured"]
    assert error.terms[0].value == pytest.approx(mean, rel=0.03)
    worst = (waves(error.at[None]) - result(error.at[None])).abs().max()
    assert error.at_error == pytest.approx(float(worst))
    assert error.at_error >= float((waves(x) - result(x)).abs().max()) * 0.9
    text = repr(result)
    assert 'by method "fit", sampled' in text
    words = " ".join(text.split())
    assert "no proven bound; mean absolute error" in words
    assert "assumes nothing: no bound is proven" in words
    assert "grid" not in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("tokens", "features", "out_features", "depth"),
    [(3, 2, 1, None), (2, 1, 3, 3), (1, 2, 2, 7)],
)
def test_the_blocks_are_the_trained_net(
    tokens: int, features: int, out_features: int, depth: int | None
) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x.sum((1, 2), keepdim=True) - x[:, :, :1]).expand(-1, -1, out_features) * 100 - 7

    design = aq.Design(tokens, depth=depth)
    made = aq.approximate(f, design, features=features, tol=20.0, norm="mean", method="fit")
    x = inputs(tokens, features)
    x[0], x[1] = 0.0, 1.0
    with torch.no_grad():
        assert torch.allclose(made.model(x), made(x), rtol=0, atol=1e-10)
        outside = 9 * x - 4
        alone = made.fused(outside)
        assert torch.allclose(made.model(outside), alone, rtol=0, atol=1e-9)
    assert made.model.shape == made.size
    assert made.size.attention_layers == 1
    assert made.size.layers == (5 if depth is None else depth)


def test_the_network_can_be_trained_on() -> None:
    made, x = fit(tol=0.3), inputs(count=256)
    optimiser = torch.optim.Adam(made.model.parameters(), lr=1e-4)
    losses = []
    for _ in range(8):
        loss = (made.model(x) - waves(x)).abs().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    with pytest.raises(WeightsChanged):
        made(x)


def test_the_same_seed_gives_the_same_bits_and_another_does_not(result: Approximation) -> None:
    assert same(fit(), result)
    assert not same(fit(seed=1), result)


class Stop:
    """Ctrl-C at the given step of the training."""

    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage.startswith("fit") and done == self.step:
            raise KeyboardInterrupt


def test_stopped_and_called_again_it_ends_where_it_would_have(
    result: Approximation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = int(result.facts.checked["steps"])
    assert steps > 64, "or there is nothing to interrupt"
    monkeypatch.setattr(train, "_SECONDS_BETWEEN_WRITES", 0.0)
    folder = tmp_path / "state"
    for _ in range(2):  # the second time it stops where it starts
        with pytest.raises(KeyboardInterrupt):
            fit(checkpoint=folder, progress=Stop(64))
    assert [file.name for file in folder.iterdir()] == ["state.safetensors"]
    seen: list[int] = []
    again = fit(
        checkpoint=folder,
        progress=lambda stage, done, total: seen.append(done) if stage.startswith("fit") else None,
    )
    assert seen[0] == 64, "it went on, it did not start again"
    assert same(again, result)


def test_a_tighter_tolerance_goes_on_from_where_a_looser_one_stopped(
    result: Approximation, tmp_path: Path
) -> None:
    loose = fit(tol=0.2, checkpoint=tmp_path / "state")
    assert not same(loose, result)
    assert same(fit(checkpoint=tmp_path / "state"), result)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seed": 3}, "seed is 0 there, 3 here"),
        ({"norm": "lp"}, "norm is 'mean' there, 'lp' here"),
        ({"f": lambda x: waves(x) + 1e-3}, "belongs to another f"),
        ({"tokens": 3}, "belongs to another question"),
    ],
)
def test_a_state_goes_on_with_its_own_question_only(
    changed: dict[str, Any], message: str, tmp_path: Path
) -> None:
    fit(tol=0.5, checkpoint=tmp_path / "state")
    with pytest.raises(FileProblem, match=message):
        fit(**changed | {"tol": 0.5, "checkpoint": tmp_path / "state"})


def test_a_constant_needs_no_step() -> None:
    made = fit(lambda x: torch.zeros_like(x) - 3.5, tol=1e-12)
    assert made.facts.checked["steps"] == "0"
    assert torch.equal(made(inputs()), torch.full((4000, 2, 1), -3.5, dtype=torch.float64))


def test_it_gives_up_where_nothing_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "_PATIENCE", 128)
    done: list[int] = []
    with pytest.raises(CannotApproximate, match=r"the best error on held-out inputs is 0\.6"):
        fit(
            lambda x: torch.sin(1e5 * x),
            progress=lambda stage, step, total: done.append(step),
        )
    assert max(step for step in done if step < train.STEPS) < 1024


def test_it_gives_up_after_the_last_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(train, "STEPS", 64)
    for _ in range(2):  # the second time from the state that was kept
        with pytest.raises(CannotApproximate, match="after 64 steps the best error"):
            fit(tol=1e-4, checkpoint=tmp_path / "state")


@pytest.mark.parametrize(("scale", "shift"), [(1e6, 0.0), (1e-6, 1.0)])
def test_the_size_of_f_does_not_matter(scale: float, shift: float, result: Approximation) -> None:
    made = fit(lambda x: scale * waves(x) + shift, tol=0.05 * scale)
    x = inputs()
    assert float((scale * waves(x) + shift - made(x)).abs().mean()) <= 0.05 * scale
    assert int(made.facts.checked["steps"]) <= 3 * int(result.facts.checked["steps"])


@pytest.mark.parametrize("p", [1.0, 2.0, 4.0])
def test_in_l_p_the_tolerance_is_the_distance(p: float) -> None:
    made = fit(norm="lp", p=p, tol=0.3)
    powers = (waves(inputs()) - made(inputs())).abs() ** p
    distance = float(powers.sum((1, 2)).mean()) ** (1 / p)
    assert made.error.terms[0].value == pytest.approx(distance, rel=0.1)
    assert distance <= 0.3
    assert made.error.lower <= made.error.terms[0].value


def test_a_jump_is_no_obstacle() -> None:
    made = fit(lambda x: (x > 0.5).double(), tol=0.1)
    assert made.status == "sampled"


def test_auto_keeps_to_proofs_and_says_when_there_is_none() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.mean(1, keepdim=True).expand_as(x)

    def auto(tokens: int, **changed: Any) -> Approximation:
        return fit(f, tokens, **{"method": "auto", "tol": 0.1} | changed)

    proved = auto(2)
    assert (proved.method != "fit", proved.status) == (True, "conditional")
    assert auto(2, lipschitz=1.0).status.startswith("certified")
    sampled = auto(12)
    assert (sampled.method, sampled.status) == ("fit", "sampled")
    with pytest.raises(CannotApproximate, match='ask for it by name, method="fit"'):
        auto(12, lipschitz=1.0)
    with pytest.raises(CannotApproximate, match="samples say nothing about the worst input"):
        auto(12, norm="sup")
    assert auto(12, method="fit", lipschitz=1.0).error.upper is None


def test_the_plan_shows_it_last_and_without_an_error() -> None:
    plan = aq.plan(aq.Design(16), 4, 0.05, lipschitz=5.0, norm="mean")
    (row,) = plan.rows()
    assert (row["method"], row["error"], row["step"], row["cells"]) == ("fit", None, None, 0)
    assert row["parameters"] == FitRecipe(plan.ask).shape.parameters
    assert 30 < row["seconds"] < 300
    text = str(plan)
    assert "sampled: not proved" in text
    assert "|f| <= 1: no method proves it" in text
    assert max(map(len, text.splitlines()[:4])) <= 80
    small = aq.plan(aq.Design(2), 1, 0.3, lipschitz=1.0, norm="mean")
    assert [recipe.method for recipe in small.recipes][-1] == "fit"
    assert small.choose("auto").method != "fit"


@pytest.mark.parametrize(
    "design",
    [
        aq.Design(3, aq.Window(1)),
        aq.Design(3, aq.Window(1), aq.URPE()),
        aq.Design(2, position=aq.Rotary(), prob_map="hardmax", bos=True),
        aq.Design(2, position=aq.Sinusoidal(), sinks=True),
    ],
    ids=str,
)
def test_other_designs_gather_first(design: aq.Design) -> None:
    result = aq.approximate(
        lambda x: x.flip(1) / 2, design, features=1, tol=0.1, norm="mean", method="fit"
    )
    x = random(result, 100)
    with torch.no_grad():
        blocks = result.model(x)
    assert (blocks - result.fused(x)).abs().max() <= 1e-9
    assert (blocks - x.flip(1) / 2).abs().mean() <= 0.1


def test_tokens_that_hold_different_parts_are_refused() -> None:
    refused = aq.plan(aq.Design(2, aq.Causal()), 1, 0.1, lipschitz=1.0, norm="mean").refused
    assert "each token holds a different part" in refused["fit"]


@pytest.mark.parametrize(
    ("design", "changed", "reason"),
    [
        (aq.Design(2), {"norm": "sup"}, "use norm='mean' or norm='lp'"),
        (aq.Design(13), {"features": 5}, "at most 64 dimensions .*, these are 65"),
        (aq.Design(2, position=aq.NoPosition()), {}, "it needs a design that gathers"),
        (aq.Design(2, position=aq.Rotary()), {}, "it needs a design that gathers"),
        (aq.Design(2, feedforward=False), {}, "needs feed-forward layers"),
        (aq.Design(2, depth=2), {}, "it needs 3 layers; the design has depth=2"),
        (aq.Design(2), {"budget": 1000}, "parameters in 5 layers; the budget is 1,000"),
    ],
)
def test_refusals_say_why(design: aq.Design, changed: dict[str, Any], reason: str) -> None:
    usual: dict[str, Any] = {"features": 1, "tol": 0.1, "norm": "mean", "method": "fit"}
    with pytest.raises(CannotApproximate, match=reason):
        aq.approximate(lambda x: x, design, **usual | changed)


def test_a_checkpoint_is_for_fit_alone(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="is for method='fit', not 'gather'"):
        fit(method="gather", checkpoint=tmp_path)
