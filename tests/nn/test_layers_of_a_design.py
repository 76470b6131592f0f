"""A Transformer whose layers are of different kinds."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import anyseq as aq
from anyseq.design import Mixer
from anyseq.errors import InvalidArgument
from nn.inputs import random, shaken

MIXED = [
    aq.Layer(aq.Causal() & aq.Window(2), aq.Rotary()),
    aq.Layer(position=aq.URPE(aq.T5Bias(8, 16)), sinks=True),
    aq.Layer(aq.Window(3), prob_map="sparsemax", feedforward=False),
    aq.Layer(mixer="recurrence"),
    aq.Layer(aq.Strided(2), mixer="linear"),
    aq.Layer(position=aq.URPE(aq.ALiBi(), shared=False)),
    aq.Layer(mixer=aq.Convolution(3)),
    aq.Layer(aq.Window(2), mixer="average"),
    aq.Layer(position=aq.RelativeBias()),
    aq.Layer(aq.Window(2), mixer="bilinear"),
]


def model(design: aq.Design, depth: int, **options: Any) -> aq.nn.Transformer:
    torch.manual_seed(0)
    made = aq.nn.Transformer(design, 8, depth, heads=2, hidden=12, dtype=torch.float64, **options)
    shaken(made)
    return made


def test_each_block_is_its_layer() -> None:
    """Positions, maps and sinks are those of the layer, and only some layers take the gain."""
    design = aq.Design(6, layers=MIXED)
    net, x = model(design, len(MIXED)), random(2, 6, 8)
    assert net.gain is not None
    expected = x + net.get_parameter("position.table")
    for i, (block, layer) in enumerate(zip(net.blocks, MIXED, strict=True)):
        assert (block.feedforward is not None) == layer.feedforward
        assert aq.nn.made_of(block.mixer, layer)
        told = {"gain": net.gain()} if i == 1 else {}
        if isinstance(block.mixer, aq.nn.Attention):
            assert block.mixer.pattern == layer.pattern
            assert block.mixer.prob_map == layer.probability
            assert (block.mixer.sink is not None) == layer.sinks
        expected = block(expected, **told)
    torch.testing.assert_close(net(x), expected, rtol=0, atol=1e-12)
    inside = [name for name in net.state_dict() if "mixer.position" in name]
    assert inside == [
        "blocks.1.mixer.position.table",
        "blocks.5.mixer.position.own_gain.table",
        "blocks.8.mixer.position.table",
    ]


def test_layers_are_taken_in_turn() -> None:
    net = model(aq.Design(6, layers=MIXED[:2]), 5)
    sinks = [f"blocks.{i}.mixer.sink" in net.state_dict() for i in range(5)]
    assert sinks == [False, True] * 2 + [False]


def test_names_of_weights_are_those_of_saved_models() -> None:
    """As they were before designs had layers."""
    design = aq.Design(4, (aq.Full(), aq.Causal()), aq.URPE(), bos=True, sinks=True)
    net = model(design, 1, vocab=7)
    halves = ("mixer_norm", "feedforward_norm")
    mixer = ("sink", "q_proj.weight", "q_proj.bias", "k_proj.weight", "v_proj.weight",
             "o_proj.weight", "position.table")  # fmt: skip
    feedforward = [f"{side}_proj.{part}" for side in ("up", "down") for part in ("weight", "bias")]
    assert list(net.state_dict()) == [
        "embedding", "bos", "gain.table",
        *(f"blocks.0.mixer.{name}" for name in mixer),
        *(f"blocks.0.feedforward.{name}" for name in feedforward),
        *(f"blocks.0.{half}.{part}" for half in halves for part in ("weight", "bias")),
    ]  # fmt: skip


def test_a_model_can_be_built_without_numbers() -> None:
    design = aq.Design(6, layers=MIXED, final_norm="learned-layernorm", head=True)
    net = model(design, len(MIXED))
    with torch.device("meta"):
        copy = aq.nn.Transformer(design, 8, len(MIXED), heads=2, hidden=12, dtype=torch.float64)
    copy.to_empty(device="cpu").load_state_dict(net.state_dict())
    assert torch.equal(copy(random(1, 6, 8)), net(random(1, 6, 8)))


@pytest.mark.parametrize("layers", [MIXED, MIXED[::-1]], ids=["in order", "reversed"])
def test_a_step_changes_every_parameter(layers: list[aq.Layer]) -> None:
    design = aq.Design(
        6, layers=layers, bos=True, block_norm="sandwich", final_norm="learned-rmsnorm", head=True
    )
    net = model(design, len(layers))
    before = {name: value.detach().clone() for name, value in net.named_parameters()}
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    (net(random(4, 6, 8)) - random(4, 6, 8, seed=1)).square().mean().backward()
    optimiser.step()
    for name, value in net.named_parameters():
        assert not torch.equal(value, before[name]), name


def test_causality_by_gradients() -> None:
    net, x = model(aq.Design(6, layers=MIXED), len(MIXED), causal=True), random(1, 6, 8)
    x.requires_grad_()
    for i in range(6):
        (gradient,) = torch.autograd.grad(net(x)[0, i].square().sum(), x)
        felt = gradient[0].abs().amax(-1) > 0
        assert torch.equal(felt, torch.arange(6) <= i)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bos", [False, True])
def test_padding_changes_nothing(causal: bool, bos: bool) -> None:
    net = model(aq.Design(6, layers=MIXED, bos=bos), len(MIXED), causal=causal)
    x, mask = random(2, 6, 8), torch.arange(6) < torch.tensor([[4], [6]])
    out = net(x, key_mask=mask)
    torch.testing.assert_close(out[0, :4], net(x[:1, :4])[0], rtol=0, atol=1e-11)
    torch.testing.assert_close(out[1], net(x[1:])[0], rtol=0, atol=1e-11)


def test_some_layers_share_a_bias() -> None:
    """Those that learn one; the others are told nothing of it."""
    layers = [
        aq.Layer(position=aq.RelativeBias()),
        aq.Layer(position=aq.Rotary()),
        aq.Layer(mixer="linear"),
        aq.Layer(position=aq.URPE()),
        aq.Layer(position=aq.URPE(aq.RelativeBias(), shared=False)),
    ]
    design = aq.Design(6, layers=layers)
    shared, own = (model(design, 5, shared_bias=shared) for shared in (True, False))
    state = dict(shared.state_dict())
    table = state.pop("bias.position.table")
    copies = [name for name in own.state_dict() if name not in state]
    assert copies == [
        "blocks.0.mixer.position.table",
        "blocks.3.mixer.position.table",
        "blocks.4.mixer.position.base.table",
    ]
    own.load_state_dict(state | dict.fromkeys(copies, table))
    x = random(2, 6, 8)
    torch.testing.assert_close(own(x), shared(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("norm", ["pre", "post", "sandwich"])
def test_the_norms_are_the_designs(norm: Any) -> None:
    design, plain = aq.Design(4, block_norm=norm), aq.Design(4)
    x = random(1, 4, 8)
    told, said = model(design, 2), model(plain, 2, norm=norm)
    assert [block.norm for block in told.blocks] == [norm] * 2
    assert torch.equal(told(x), said(x))
    assert torch.equal(model(design, 2, norm=norm)(x), said(x))
    assert [block.norm for block in model(plain, 2).blocks] == ["pre"] * 2


@pytest.mark.parametrize("name", ["learned-layernorm", "learned-rmsnorm"])
@pytest.mark.parametrize("head", [False, True])
def test_a_learned_norm_and_a_head(name: str, head: bool) -> None:
    plain = model(aq.Design(4), 2)
    net, x = model(aq.Design(4, final_norm=name, head=head), 2), random(2, 4, 8)
    state = net.state_dict()
    plain.load_state_dict({key: state[key] for key in plain.state_dict()})
    if name == "learned-layernorm":
        expected = functional.layer_norm(
            plain(x), (8,), state["final_norm.weight"], state["final_norm.bias"]
        )
    else:
        expected = functional.rms_norm(plain(x), (8,), state["final_norm.weight"])
    if head:
        expected = expected @ state["head.weight"].T + state["head.bias"]
    torch.testing.assert_close(net(x), expected, rtol=0, atol=1e-12)


def test_the_embedding_is_the_head_of_ids() -> None:
    ids = torch.tensor([[1, 2, 3, 4]])
    plain = model(aq.Design(4), 2, vocab=7)
    headed = model(aq.Design(4, head=True, domain="ids", readout="last"), 2, vocab=7)
    assert torch.equal(headed(ids), plain(ids))
    assert not list(headed.get_submodule("head").parameters())


class Fourier(Mixer):
    """A mixer that no module serves."""

    def sees(self, pattern: aq.Pattern) -> aq.Pattern:
        return pattern


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: model(aq.Design(4, layers=[aq.Layer(position=aq.Rotary()), aq.Layer()]), 2,
                          shared_bias=True),
            "shared_bias=True, but Rotary.*, NoPosition.* learns no biases of offsets",
        ),
        (
            lambda: model(aq.Design(4, layers=[aq.Layer(position=aq.RelativeBias()),
                                               aq.Layer(position=aq.T5Bias())]), 2,
                          shared_bias=True),
            "RelativeBias.*, T5Bias.* are biases of several kinds",
        ),
        (
            lambda: model(aq.Design(4, layers=[aq.Layer(aq.PerHead(aq.Full(), aq.Window(1)),
                                                        mixer="average")]), 1),
            r"pattern=PerHead.* differs by head or batch row, and AverageMixer has one mask",
        ),
        (
            lambda: model(aq.Design(4, layers=[aq.Layer(aq.Documents((2, 2)), mixer="linear")]), 1)(
                random(1, 3, 8)),
            "x has 3 tokens, but pattern Documents",
        ),
        (
            lambda: model(aq.Design(4, block_norm="pre"), 1, norm="none"),
            "norm='none', but the design has block_norm='pre'",
        ),
        (
            lambda: model(aq.Design(4, layers=[aq.Layer(mixer=Fourier())]), 1),
            r"mixer=Fourier\(\): there is no trainable module for it; expected attention, Conv",
        ),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make()
