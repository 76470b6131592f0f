import math
from collections.abc import Callable

import pytest
import torch

import anyseq as aq
from anyseq.construct import Approximation
from anyseq.construct.request.functions import FUNCTIONS
from anyseq.errors import InvalidArgument, WeightsChanged


def build(method: str = "gather") -> Approximation:
    return aq.approximate(
        FUNCTIONS["sort"],
        aq.Design(2),
        features=1,
        tol=0.25,
        norm="lp",
        method=method,
        lipschitz=1.0,
    )


X = torch.rand(10, 2, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def _train(model: aq.nn.Stack) -> None:
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    (model(X) - 1).square().mean().backward()
    optimiser.step()


def _load(model: aq.nn.Stack) -> None:
    model.load_state_dict({k: v * 2 for k, v in model.state_dict().items()})


CHANGES: dict[str, Callable[[aq.nn.Stack], object]] = {
    "in place": lambda model: model.get_parameter("up_bias").data.view(-1)[3:4].add_(1e-12),
    "through a block": lambda model: model[0].feedforward.up_proj.bias.data.add_(1),  # type: ignore[union-attr]
    "training": _train,
    "loading": _load,
    "another dtype": lambda model: model.float(),
    "a dtype that numpy does not know": lambda model: model.bfloat16(),
}


@pytest.mark.parametrize("method", ["gather", "yun"])
@pytest.mark.parametrize("name", CHANGES)
def test_it_refuses_once_the_weights_have_changed(method: str, name: str) -> None:
    result = build(method)
    result(X)
    CHANGES[name](result.model)
    with pytest.raises(WeightsChanged, match=r"use result.model\(x\)"):
        result(X)
    with pytest.raises(WeightsChanged):
        result.save("nowhere")


def test_putting_the_weights_back_is_fine() -> None:
    result = build()
    before = result(X)
    weights = {name: tensor.clone() for name, tensor in result.model.state_dict().items()}
    with torch.no_grad():
        result.model.get_parameter("up_bias").add_(1)
    with pytest.raises(WeightsChanged):
        result(X)
    result.model.load_state_dict(weights)
    assert torch.equal(result(X), before)


@pytest.mark.parametrize("method", ["gather", "yun"])
@pytest.mark.parametrize(
    "values",
    [[0.0, 0.0], [1.0, 1.0], [1.0, 0.3], [-0.5, 0.2], [3.0, 0.2]],
    ids=str,
)
def test_look_up_and_blocks_agree_at_the_edge_and_outside(method: str, values: list[float]) -> None:
    result = build(method)
    x = torch.cat([X, torch.tensor(values, dtype=torch.float64).view(1, 2, 1)])
    with torch.no_grad():
        torch.testing.assert_close(result(x), result.model(x), rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", ["gather", "yun"])
def test_nan_is_refused(method: str) -> None:
    with pytest.raises(InvalidArgument, match="x holds NaN"):
        build(method)(torch.full((1, 2, 1), torch.nan, dtype=torch.float64))


def test_the_model_can_be_trained_further() -> None:
    result = build()
    model = result.model
    target = torch.cat([X, X], dim=1)[:, :2] ** 2
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)
    losses = []
    for _ in range(20):
        loss = (model(X) - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("method", ["gather", "yun"])
def test_its_weights_can_be_listed_as_ordinary_blocks(method: str) -> None:
    model = build(method).model
    blocks = list(model)
    assert len(blocks) == len(model)
    assert all(isinstance(block, aq.nn.Block) for block in blocks)
    x = torch.nn.functional.pad(X, (0, model.shape.width - 1)) + model.get_parameter("position")
    for block in blocks:
        x = block(x)
    torch.testing.assert_close(x[..., :1], model(X), rtol=0, atol=1e-12)


def test_wrong_inputs_are_named() -> None:
    result = build()
    with pytest.raises(InvalidArgument, match=r"x: \(10, 1, 2\); expected .*\(batch, 2, 1\)"):
        result(X.transpose(1, 2))
    with pytest.raises(InvalidArgument, match=r"use x.double\(\)"):
        result(X.float())
    with pytest.raises(InvalidArgument, match="x: list"):
        result([[1.0]])  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["gather", "yun"])
def test_the_summary_fits_one_screen(method: str) -> None:
    lines = repr(build(method)).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    text = " ".join(repr(build(method)).split())
    assert "certified" in text
    assert "<= |f - T| <=" in text
    assert "worst off by" in text
    assert "f is 1-Lipschitz in the max norm (given)" in text


def test_inputs_that_overflow_are_refused_whatever_the_method() -> None:
    """Relative positions go through attention that does not look for NaN itself."""
    result = aq.approximate(
        aq.functions["sort"], aq.Design(2, position=aq.Rotary()), features=1, tol=0.9, norm="lp",
        method="boltzmann", lipschitz=1.0,
    )  # fmt: skip
    x = torch.full((2, 2, 1), 0.5, dtype=torch.float64)
    assert result(x).isfinite().all()
    for huge, why in ((1e300, "overflows"), (-1e300, "overflows"), (math.inf, "infinity")):
        x[1, 0, 0] = huge
        with pytest.raises(InvalidArgument, match=why):
            result(x)
