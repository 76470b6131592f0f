"""Method "sum" in every design that averages: other maps, BOS, sinks, positions switched off."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import anyseq as aq
from anyseq.construct.methods.sum.average import average, averaging_heads, averaging_layer
from anyseq.construct.request.functions import FUNCTIONS
from anyseq.construct.request.verdicts import Verdicts
from anyseq.errors import CannotApproximate
from construct.inputs import random

DESIGNS = [
    *(aq.Design(3, position=aq.NoPosition(), prob_map=m) for m in ("sparsemax", "entmax15")),
    aq.Design(3, position=aq.NoPosition(), prob_map=aq.TopK(2)),
    aq.Design(3, position=aq.NoPosition(), prob_map="hardmax", bos=True),
    aq.Design(3, position=aq.NoPosition(), sinks=True),
    aq.Design(3, position=aq.NoPosition(), sinks=True, bos=True),
    aq.Design(3, position=aq.Rotary()),
    aq.Design(3, position=aq.RelativeBias(), prob_map="hardmax"),
    aq.Design(3, position=aq.T5Bias(), prob_map="entmax15"),
    aq.Design(3, (aq.Window(1), aq.Full(), aq.Window(1)), aq.NoPosition()),
    aq.Design(4, aq.PerHead(aq.Window(1), aq.Full()), aq.NoPosition(), depth=400),
]


@pytest.mark.parametrize("design", DESIGNS, ids=str)
@pytest.mark.parametrize("name", ["plus-mean", "times-max"])
def test_it_meets_its_bound_in_blocks_and_look_up(design: aq.Design, name: str) -> None:
    f = FUNCTIONS[name]
    lipschitz = f.lipschitz(design.tokens, 1)
    result = aq.approximate(
        f, design, features=1, tol=0.27 * lipschitz, method="sum", lipschitz=lipschitz
    )
    x = random(result, 200)
    x[:60, 0] = x[:60, -1]
    x[60:90] = (x[60:90] * 4).round() / 4
    with torch.no_grad():
        blocks = result.model(x)
    assert (blocks - result.fused(x)).abs().max() <= 1e-9
    assert result.error.upper is not None
    assert (blocks - f(x)).abs().max() <= result.error.upper <= 0.27 * lipschitz
    order = torch.randperm(design.tokens, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(result(x)[:, order], result(x[:, order]))
    assert result.certificate is not None
    assert result.certificate.verify()
    assert any("commutes" in line for line in result.error.assumes)


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_the_head_returns_the_mean_over_all_positions(design: aq.Design) -> None:
    layer = averaging_layer(design, "sup", Verdicts())
    heads = averaging_heads(design, layer, 2)
    attention = average(heads, layer, 4, first=1, factors=torch.tensor([1.0, -2.0]).double())
    rng = torch.Generator().manual_seed(1)
    z = torch.rand(5, heads.vertices, 4, generator=rng, dtype=torch.float64)
    out = heads.run(design.cycle[layer], attention, None, z) - z
    mean = z.mean(1, keepdim=True)
    expected = torch.stack([mean[..., 1], -2 * mean[..., 2]], 2).expand(-1, heads.vertices, -1)
    assert torch.allclose(out[..., 1:3], expected, atol=1e-14)
    assert not out[..., [0, 3]].any()


@pytest.mark.parametrize(
    "design",
    [
        aq.Design(3),
        aq.Design(3, position=aq.Rotary(), bos=True),
        aq.Design(3, aq.Window(1), aq.NoPosition()),
    ],
)
def test_it_is_for_equivariant_functions_only(design: aq.Design) -> None:
    with pytest.raises(CannotApproximate, match="only for permutation-equivariant f"):
        averaging_layer(design, "sup", Verdicts())


def test_slopes_average_in_the_limit_only() -> None:
    with pytest.raises(CannotApproximate, match="a head that averages over all tokens"):
        averaging_layer(aq.Design(3, position=aq.ALiBi()), "sup", Verdicts())


@pytest.mark.parametrize(
    ("patterns", "served"),
    [
        (aq.Blocks(1), False),
        (torch.tensor([[True, False], [False, True]]), False),
        ((aq.Blocks(1), aq.Full()), True),
    ],
)
def test_one_token_beside_bos_needs_a_head_that_sees_both(patterns: Any, served: bool) -> None:
    design = aq.Design(1, patterns, aq.NoPosition(), bos=True)
    f = FUNCTIONS["plus-mean"]
    asked: dict[str, Any] = {
        "features": 1,
        "tol": 0.5,
        "method": "sum",
        "lipschitz": f.lipschitz(1, 1),
    }
    if not served:
        with pytest.raises(CannotApproximate, match="averages over all tokens"):
            aq.approximate(f, design, **asked)
        return
    result = aq.approximate(f, design, **asked)
    x = random(result, 200)
    assert result.error.upper is not None
    assert (result.model(x) - f(x)).abs().max() <= result.error.upper
