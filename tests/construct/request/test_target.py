"""Functions that misbehave, each with its one clear error."""

import pytest
import torch

import anyseq as aq
from anyseq.construct.request.target import Function, Target
from anyseq.errors import InvalidFunction


def _raises(x: torch.Tensor) -> torch.Tensor:
    raise RuntimeError("no luck")


def _nan_somewhere(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 0.5, torch.nan, x)


BAD: dict[str, tuple[Function, str]] = {
    "NaN": (_nan_somewhere, r"f returned NaN or infinity at x = \[\["),
    "infinite": (lambda x: x / 0, "NaN or infinity"),
    "shape": (lambda x: x.flatten(1), r"returned shape \(8, 2\); expected \(8, 2, out_features\)"),
    "tokens": (lambda x: x[:, :1], r"returned shape \(8, 1, 1\)"),
    "no features": (lambda x: x[:, :, :0], r"returned shape \(8, 2, 0\)"),
    "batch size": (lambda x: x[:1], r"returned shape \(1, 2, 1\); expected \(8, 2,"),
    "not deterministic": (lambda x: x + torch.rand_like(x), "f is not deterministic: two calls at"),
    "raises": (_raises, "raised RuntimeError: no luck"),
    "integers": (lambda x: x.long(), r"returned a torch.int64 tensor; expected a float64 tensor"),
    "float32": (lambda x: x.float(), r"returned a torch.float32 tensor; expected a float64"),
    "list": (lambda x: x.tolist(), "returned list; expected a float64 tensor"),  # type: ignore[dict-item,return-value]
    "mixes the batch": (lambda x: x - x.mean(0), "f mixes the sequences of a batch"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_functions(name: str) -> None:
    f, message = BAD[name]
    with pytest.raises(InvalidFunction, match=message):
        aq.approximate(f, aq.Design(2), features=1, tol=0.1)


def test_not_callable() -> None:
    with pytest.raises(InvalidFunction, match="f=3 is not callable"):
        aq.approximate(3, aq.Design(2), features=1, tol=0.1)  # type: ignore[arg-type]


def test_bad_only_later() -> None:
    """A NaN that the first look did not meet is found when the grid is evaluated."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.where((x == 0).all((1, 2), keepdim=True), torch.nan, x)

    with pytest.raises(InvalidFunction, match=r"NaN or infinity at x = \[\[0.0\], \[0.0\]\]"):
        aq.approximate(f, aq.Design(2), features=1, tol=0.1, lipschitz=1.0)


def test_out_features_are_read_off_or_checked() -> None:
    assert Target(lambda x: x.repeat(1, 1, 3), 2, 1, None).out_features == 3
    with pytest.raises(InvalidFunction, match=r"returned shape \(8, 2, 3\); expected \(8, 2, 2\)"):
        Target(lambda x: x.repeat(1, 1, 3), 2, 1, 2)


def test_f_cannot_change_our_inputs() -> None:
    def greedy(x: torch.Tensor) -> torch.Tensor:
        return x.mul_(2)

    x = torch.full((3, 2, 1), 0.25, dtype=torch.float64)
    assert (Target(greedy, 2, 1, None)(x) == 0.5).all()
    assert (x == 0.25).all()
