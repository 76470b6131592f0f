import json
from collections.abc import Callable
from dataclasses import asdict
from itertools import pairwise

import pytest
import torch

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.nn import AttentionLayers, FeedForwardLayers, Layers, Stack, StackShape
from anyseq.nn.attention_position import attention_position, inside_attention

WIDTH, HEADS, SIZE, HIDDEN = 5, 2, 1, 3


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=rng, dtype=torch.float64) / 2


def attention(layers: int) -> AttentionLayers:
    inner = HEADS * SIZE
    return AttentionLayers(
        heads=HEADS,
        q_weight=random(layers, inner, WIDTH, seed=1),
        q_bias=random(layers, inner, seed=2),
        k_weight=random(layers, inner, WIDTH, seed=3),
        v_weight=random(layers, inner, WIDTH, seed=4),
        o_weight=random(layers, WIDTH, inner, seed=5),
    )


def feedforward(layers: int, hidden: int = HIDDEN) -> FeedForwardLayers:
    return FeedForwardLayers(
        up_weight=random(layers, hidden, WIDTH, seed=6),
        up_bias=random(layers, hidden, seed=7),
        down_weight=random(layers, WIDTH, hidden, seed=8),
        down_bias=random(layers, WIDTH, seed=9),
    )


def stack(design: aq.Design | None = None) -> Stack:
    """Feed-forward layers, then attention layers, then both halves, then a shorter hidden layer."""
    runs = [
        Layers(feedforward=feedforward(2)),
        Layers(attention=attention(3)),
        Layers(attention=attention(1), feedforward=feedforward(1)),
        Layers(feedforward=feedforward(2, hidden=1)),
    ]
    return Stack.of(
        design or aq.Design(4),
        runs,
        in_features=2,
        out_features=3,
        position=random(4, WIDTH, seed=10),
    )


def test_a_stack_is_its_blocks() -> None:
    model = stack(aq.Design(4, patterns=(aq.Full(), aq.Causal())))
    x = random(6, 4, 2)
    z = torch.nn.functional.pad(x, (0, 3)) + model.get_parameter("position")
    for layer in range(len(model)):
        z = model[layer](z)
    torch.testing.assert_close(model(x), z[..., :3])


@pytest.mark.parametrize("bos", [False, True])
def test_a_trace_goes_where_the_network_goes(bos: bool) -> None:
    design = aq.Design(4, patterns=(aq.Full(), aq.Causal()), bos=bos)
    start = random(WIDTH, seed=11) if bos else None
    model = Stack.of(
        design,
        [Layers(feedforward=feedforward(2)), Layers(attention(3), feedforward(3))],
        in_features=2,
        out_features=3,
        position=random(4 + bos, WIDTH, seed=10),
        bos=start,
    )
    x = random(2, 4, 2)
    steps = list(model.trace(x))
    assert [layer for layer, _ in steps] == [-1, 0, 1, 2, 2, 3, 3, 4, 4]
    for (_, before), (layer, after) in pairwise(steps):
        block = model[layer]
        if [one for one, _ in steps].count(layer) == 1:
            torch.testing.assert_close(block(before), after)
    assert torch.equal(steps[-1][1][:, int(bos) :, :3], model(x))


def test_halves_and_sizes() -> None:
    model = stack()
    assert len(model) == 8
    assert [(b.mixer is not None, b.feedforward is not None) for b in model] == [
        (False, True),
        (False, True),
        (True, False),
        (True, False),
        (True, False),
        (True, True),
        (False, True),
        (False, True),
    ]
    assert model.shape.parameters == sum(p.numel() for p in model.parameters())
    assert model.shape.hidden == HIDDEN


def test_idle_blocks_let_the_cycle_go_on() -> None:
    design = aq.Design(4, patterns=(aq.Full(), aq.Causal()))
    idle, x = Layers(idle=3), random(6, 4, 2)
    runs = [Layers(feedforward=feedforward(2)), idle, Layers(attention=attention(1)), idle]
    model = Stack.of(design, runs, in_features=2, out_features=3)
    assert (len(model), model.shape.attention_layers, model.shape.feedforward_layers) == (9, 1, 2)
    z = torch.nn.functional.pad(x, (0, 3))
    for block in model:
        z = block(z)
    torch.testing.assert_close(model(x), z[..., :3])
    changed = x.clone()
    changed[:, 1:] += 1.0  # attention is in layer 5: causal
    assert torch.equal(model(x)[:, 0], model(changed)[:, 0])


def test_a_layer_shares_the_memory_of_the_stack() -> None:
    model = stack()
    x = random(2, 4, 2)
    before = model(x)
    layer = model[-1].feedforward
    assert layer is not None
    with torch.no_grad():
        layer.down_proj.bias.add_(1)
    torch.testing.assert_close(model(x), before + 1)
    with pytest.raises(IndexError, match="layer 8 of a stack of 8 layers"):
        model[8]


def _swap(tensor: torch.Tensor) -> None:
    flat = tensor.view(-1)
    flat[[0, 1]] = flat[[1, 0]]


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.data.mul_(2),
        lambda p: p.data.view(-1)[-1:].add_(2.0**-52),
        lambda p: _swap(p.data),
        lambda p: p.data.copy_(p.data.flip(0) if len(p) > 1 else p.data + 1),
        lambda p: setattr(p, "data", p.data.float()),
    ],
    ids=["in place", "one number", "two trade places", "rows trade places", "another dtype"],
)
def test_the_fingerprint_sees_every_change(change: Callable[[torch.Tensor], None]) -> None:
    names = [name for name, _ in stack().named_parameters()]
    assert len(names) == 10
    for name in names:
        model = stack()
        before = model.fingerprint()
        assert model.fingerprint() == before
        change(model.get_parameter(name))
        assert model.fingerprint() != before, name


def test_it_can_be_trained() -> None:
    model = stack()
    x = random(32, 4, 2)
    target = x.cumsum(1).repeat(1, 1, 2)[..., :3]
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        loss = (model(x) - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert all(p.grad is not None for p in model.parameters())
    assert losses[-1] < losses[0] / 3


def test_state_round_trip() -> None:
    model = stack()
    copy = Stack(model.design, model.shape, {k: v.clone() for k, v in model.state_dict().items()})
    x = random(3, 4, 2)
    assert torch.equal(model(x), copy(x))


def test_wrong_tensors_are_named() -> None:
    model = stack()
    good = dict(model.state_dict())
    with pytest.raises(InvalidArgument, match=r"'up_bias' has shape \(5, 2\), expected \(5, 3\)"):
        Stack(model.design, model.shape, good | {"up_bias": good["up_bias"][:, :2]})
    with pytest.raises(InvalidArgument, match=r"expected .*q_bias"):
        Stack(model.design, model.shape, {k: v for k, v in good.items() if k != "q_bias"})
    with pytest.raises(InvalidArgument, match="'halves' does not count"):
        Stack(model.design, model.shape, good | {"halves": good["halves"].flip(0)})
    with pytest.raises(InvalidArgument, match="2 attention halves and 1 feed-forward halves"):
        Layers(attention=attention(2), feedforward=feedforward(1))


def test_wrong_inputs_are_named() -> None:
    with pytest.raises(InvalidArgument, match=r"x of shape \(1, 4, 3\): expected .*\(any, 4, 2\)"):
        stack()(torch.zeros(1, 4, 3, dtype=torch.float64))
    with pytest.raises(InvalidArgument, match=r"dtype torch.float32: expected torch.float64"):
        stack()(torch.zeros(1, 4, 2))


@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize(
    "position",
    [
        aq.NoPosition(), aq.Sinusoidal(), aq.RelativeBias(), aq.T5Bias(), aq.Rotary(), aq.ALiBi(),
        aq.Shaw(2), aq.URPE(), aq.URPE(aq.NoPosition(), shared=False), aq.URPE(aq.Sinusoidal()),
    ],
    ids=str,
)  # fmt: skip
def test_positions_inside_attention(position: aq.Position, bos: bool, sinks: bool) -> None:
    """A stack with positions, sinks and BOS is its blocks, one after the other."""
    tokens, layers, heads, size = 4, 3, 2, 2
    design = aq.Design(
        tokens, patterns=(aq.Full(), aq.Window(1)), position=position, bos=bos, sinks=sinks
    )
    positions, inner = tokens + bos, heads * size
    inside, shared_gain = inside_attention(position)
    learned = attention_position(inside, heads=heads, head_dim=size, tokens=positions)
    run = AttentionLayers(
        heads=heads,
        **{f"{side}_weight": random(layers, inner, WIDTH, seed=ord(side)) for side in "qkv"},
        q_bias=random(layers, inner, seed=2),
        o_weight=random(layers, WIDTH, inner, seed=5),
        inside={
            name: random(layers, *table.shape, seed=11)
            for name, table in learned.named_parameters()
        },
        sink=random(layers, heads, seed=12) if sinks else None,
    )
    model = Stack.of(
        design,
        [Layers(attention=run, feedforward=feedforward(layers))],
        in_features=2,
        out_features=3,
        constant=random(WIDTH, seed=13),
        bos=random(WIDTH, seed=14) if bos else None,
        gain=random(heads, 2 * positions - 1, seed=15) if shared_gain else None,
    )
    x = random(6, tokens, 2)
    z = torch.nn.functional.pad(x, (0, 3)) + random(WIDTH, seed=13)
    if bos:
        z = torch.cat([random(WIDTH, seed=14).expand(6, 1, -1), z], dim=1)
    if aq.positions.Place.INPUT in position.acts_in:
        z = z + aq.Sinusoidal().table(torch.arange(positions).double(), WIDTH)
    told = {"gain": aq.Toeplitz(model.get_parameter("gain"))} if shared_gain else {}
    for block in model:
        z = block(z, **told)
    torch.testing.assert_close(model(x), z[:, int(bos) :, :3])
    assert model.shape.parameters == sum(part.numel() for part in model.parameters())
    again = StackShape(**json.loads(json.dumps(asdict(model.shape))))
    assert again == model.shape
    model(x).sum().backward()
    assert all(part.grad is not None for part in model.parameters())
