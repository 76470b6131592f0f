"""A block, written out: where its norms stand."""

import pytest
import torch
from torch.nn.functional import layer_norm

import anyseq as aq
from anyseq.nn.block import BlockNorm
from nn.inputs import random, shaken

DIM = 6


def made(norm: BlockNorm, dropout: float = 0.0) -> aq.nn.Block:
    block = aq.nn.Block(
        aq.nn.Attention(DIM, 2, dtype=torch.float64),
        aq.nn.FeedForward(DIM, 8, dtype=torch.float64),
        norm=norm,
        dropout=dropout,
    )
    shaken(block)
    return block


def normed(block: aq.nn.Block, name: str, x: torch.Tensor) -> torch.Tensor:
    weight, bias = (block.get_parameter(f"{name}.{part}") for part in ("weight", "bias"))
    return layer_norm(x, (DIM,), weight, bias)


@pytest.mark.parametrize("norm", ["none", "pre", "post", "sandwich"])
def test_where_the_norms_stand(norm: BlockNorm) -> None:
    block, x = made(norm), random(2, 5, DIM)
    expected = x
    for name, half in (("mixer", block.mixer), ("feedforward", block.feedforward)):
        assert half is not None
        match norm:
            case "none":
                expected = expected + half(expected)
            case "pre":
                expected = expected + half(normed(block, f"{name}_norm", expected))
            case "post":
                expected = normed(block, f"{name}_norm", expected + half(expected))
            case "sandwich":
                inner = half(normed(block, f"{name}_norm", expected))
                expected = expected + normed(block, f"{name}_out_norm", inner)
    torch.testing.assert_close(block(x), expected, rtol=0, atol=1e-12)
    norms = {name for name in block.state_dict() if "norm" in name}
    assert len(norms) == {"none": 0, "pre": 4, "post": 4, "sandwich": 8}[norm]


@pytest.mark.parametrize("norm", ["none", "pre", "post", "sandwich"])
def test_a_missing_half_has_no_norms(norm: BlockNorm) -> None:
    x = random(2, 5, DIM)
    assert torch.equal(aq.nn.Block(norm=norm)(x), x)
    half = aq.nn.Block(aq.nn.AverageMixer(DIM), norm=norm)
    assert not any(name.startswith("feedforward") for name in half.state_dict())


@pytest.mark.parametrize("norm", ["pre", "post", "sandwich"])
def test_dropout_is_on_what_a_half_adds(norm: BlockNorm) -> None:
    """If all of it is dropped, x is left, behind the norms of "post"."""
    torch.manual_seed(0)
    block, x = made(norm, dropout=1 - 1e-9), random(2, 5, DIM)
    left = x
    if norm == "post":
        left = normed(block, "feedforward_norm", normed(block, "mixer_norm", x))
    torch.testing.assert_close(block(x), left, rtol=0, atol=1e-12)
