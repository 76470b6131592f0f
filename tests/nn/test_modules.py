from typing import Literal

import pytest
import torch
from torch import nn as torch_nn

import anyseq as aq
from anyseq.errors import InvalidArgument


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_attention_agrees_with_torch() -> None:
    torch.manual_seed(0)
    ours = aq.nn.Attention(6, heads=3, biases="", dtype=torch.float64)
    theirs = torch_nn.MultiheadAttention(6, 3, bias=False, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(
            torch.cat([ours.q_proj.weight, ours.k_proj.weight, ours.v_proj.weight])
        )
        theirs.out_proj.weight.copy_(ours.o_proj.weight)
    x = random(2, 5, 6)
    torch.testing.assert_close(ours(x), theirs(x, x, x)[0])


def test_heads_of_size_one_with_a_query_bias() -> None:
    layer = aq.nn.Attention(3, heads=2, head_dim=1, scale=1.0, dtype=torch.float64)
    x = random(1, 4, 3)
    expected = torch.zeros(4, 3, dtype=torch.float64)
    for head in range(2):
        q = x[0] @ layer.q_proj.weight[head] + layer.q_proj.bias[head]
        k = x[0] @ layer.k_proj.weight[head]
        v = x[0] @ layer.v_proj.weight[head]
        mixed = torch.softmax(q[:, None] * k[None, :], -1) @ v
        expected = expected + mixed[:, None] * layer.o_proj.weight[:, head]
    torch.testing.assert_close(layer(x)[0], expected)


def test_causal_attention_does_not_look_ahead() -> None:
    layer = aq.nn.Attention(4, heads=2, pattern=aq.Causal(), dtype=torch.float64)
    x = random(1, 5, 4)
    changed = x.clone()
    changed[:, 3:] += 1
    torch.testing.assert_close(layer(x)[:, :3], layer(changed)[:, :3])


@pytest.mark.parametrize("norm", ["pre", "none"])
def test_block_is_two_residual_halves(norm: Literal["pre", "none"]) -> None:
    mixer = aq.nn.Attention(4, heads=2, dtype=torch.float64)
    feedforward = aq.nn.FeedForward(4, 8, dtype=torch.float64)
    block = aq.nn.Block(mixer, feedforward, norm=norm)
    x = random(2, 3, 4)

    def normed(z: torch.Tensor) -> torch.Tensor:
        return torch_nn.functional.layer_norm(z, (4,)) if norm == "pre" else z

    middle = x + mixer(normed(x))
    torch.testing.assert_close(block(x), middle + feedforward(normed(middle)))


def test_a_missing_half_adds_nothing() -> None:
    x = random(2, 3, 4)
    assert torch.equal(aq.nn.Block()(x), x)
    feedforward = aq.nn.FeedForward(4, 8, dtype=torch.float64)
    torch.testing.assert_close(aq.nn.Block(None, feedforward)(x), x + feedforward(x))


def test_no_random_initialisation_when_about_to_be_filled() -> None:
    layer = torch_nn.utils.skip_init(aq.nn.Attention, 4, heads=2)
    assert layer(torch.zeros(1, 2, 4)).shape == (1, 2, 4)


def test_bad_sizes_are_named() -> None:
    with pytest.raises(InvalidArgument, match="dim=5 is not a multiple of heads=2"):
        aq.nn.Attention(5, heads=2)
    with pytest.raises(InvalidArgument, match="mixer has dim 4, feedforward has 6"):
        aq.nn.Block(aq.nn.Attention(4), aq.nn.FeedForward(6, 8))
    with pytest.raises(InvalidArgument, match="norm='both'"):
        aq.nn.Block(norm="both")  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(3,), (0, 3), (0, 5, 3), (2, 0, 3), (2, 4, 5, 3)], ids=str)
def test_feed_forward_takes_any_leading_axes(shape: tuple[int, ...]) -> None:
    layer = aq.nn.FeedForward(3, 6, dtype=torch.float64)
    x = random(*shape).requires_grad_()
    expected = layer.down_proj(layer.up_proj(x).relu())
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-15)
    wanted = [x, *layer.parameters()]
    found, right = (torch.autograd.grad(y.square().sum(), wanted) for y in (layer(x), expected))
    torch.testing.assert_close(found, right, rtol=0, atol=1e-14)
