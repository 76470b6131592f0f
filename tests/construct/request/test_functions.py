import math

import pytest
import torch

import anyseq as aq
from anyseq.construct.request.functions import FUNCTIONS

X = torch.tensor([[[0.5], [0.1], [0.3]]], dtype=torch.float64)
EXPECTED = {
    "sort": [0.1, 0.3, 0.5],
    "reverse": [0.3, 0.1, 0.5],
    "running-max": [0.5, 0.5, 0.5],
    "prefix-mean": [0.5, 0.3, 0.3],
    "times-max": [0.25, 0.05, 0.15],
    "cosine": [-0.951056516, -0.951056516, -0.951056516],
    "attention": [0.3133, 0.3027, 0.3080],
    "plus-mean": [0.8, 0.4, 0.6],
    # the three differences are 0.4, 0.2, 0.2: sines of 0.8π, 0.4π, 0.4π
    "kuramoto": [0.5 - (0.587785252 + 0.951056516) / 6, 0.1 + (0.587785252 + 0.951056516) / 6, 0.3],
    "waves": [0.0, -0.587785252, -0.587785252],
    "mean-square": [0.35 / 3] * 3,
    "neighbours": [0.05, 0.03, 0.3],
    "bump": [0.201896518] * 3,
    "spike": [math.exp(-50 / 3)] * 3,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name: str) -> None:
    tolerance = 1e-4 if name == "attention" else 1e-8
    assert aq.functions[name](X).flatten().tolist() == pytest.approx(EXPECTED[name], abs=tolerance)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_equivariance_is_as_stated(name: str) -> None:
    example = FUNCTIONS[name]
    x = torch.rand(50, 3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    order = torch.tensor([2, 0, 1])
    same = torch.allclose(example(x)[:, order], example(x[:, order]))
    assert same == example.equivariant
