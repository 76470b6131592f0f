from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.positions import Position
from nn.inputs import random, shaken
from versions import compiles

POSITIONS = [
    aq.NoPosition(),
    aq.Absolute(),
    aq.Sinusoidal(),
    aq.Rotary(),
    aq.ALiBi(),
    aq.T5Bias(8, 16),
    aq.RelativeBias(),
    aq.Shaw(3),
    aq.URPE(),
    aq.URPE(aq.Absolute(), shared=False),
]
OTHER_MIXERS = [
    aq.Convolution(3),
    aq.Convolution(4, causal=True),
    aq.Recurrence(),
    aq.LinearAttention(),
    aq.LinearAttention(normalised=False),
    aq.Average(),
    aq.Bilinear(),
]
each_position = pytest.mark.parametrize("position", POSITIONS, ids=str)


def model(design: aq.Design, depth: int = 2, **options: Any) -> aq.nn.Transformer:
    made = aq.nn.Transformer(design, 8, depth, heads=2, hidden=12, dtype=torch.float64, **options)
    shaken(made)
    return made


def test_it_is_its_parts() -> None:
    """Embedding, BOS, positions, blocks with the patterns in turn, norm, tied logits."""
    design = aq.Design(
        6, patterns=(aq.Window(1), aq.Causal()), bos=True, sinks=True, final_norm="layernorm"
    )
    net = model(design, depth=3, vocab=11)
    ids = torch.tensor([[1, 2, 3, 10]])
    assert net.embedding is not None
    assert net.bos is not None
    x = torch.cat([net.bos.expand(1, 1, 8), net.embedding[ids]], 1)
    x = x + net.get_parameter("position.table")[:5]
    for block in net.blocks:
        x = block(x)
    expected = functional.layer_norm(x[:, 1:], (8,)) @ net.embedding.T
    torch.testing.assert_close(net(ids), expected, rtol=0, atol=1e-12)
    patterns = [net.get_submodule(f"blocks.{layer}.mixer").pattern for layer in range(3)]
    assert patterns == [aq.Window(1), aq.Causal(), aq.Window(1)]


def test_final_norms_and_a_missing_feed_forward() -> None:
    x = random(2, 4, 8)
    plain = model(aq.Design(4, feedforward=False))
    assert all(block.feedforward is None for block in plain.blocks)
    for norm in ("layernorm", "rmsnorm"):
        normed = model(aq.Design(4, feedforward=False, final_norm=norm))
        normed.load_state_dict(plain.state_dict())
        norm_of = functional.layer_norm if norm == "layernorm" else functional.rms_norm
        expected = norm_of(plain(x), (8,))
        torch.testing.assert_close(normed(x), expected, rtol=0, atol=1e-12)


def test_the_probability_map_is_honoured() -> None:
    x = random(1, 5, 8)
    soft = model(aq.Design(5))
    sparse = model(aq.Design(5, prob_map=aq.TopK(1)))
    sparse.load_state_dict(soft.state_dict())
    assert not torch.allclose(soft(x), sparse(x))


@each_position
def test_positions_tell_tokens_apart_only_if_they_do(position: Position) -> None:
    """A permuted input is a permuted output without positions, and with none of the others."""
    net, x = model(aq.Design(6, position=position)), random(1, 6, 8)
    flipped = net(x.flip(1)).flip(1)
    assert torch.allclose(flipped, net(x)) == (position in (aq.NoPosition(), aq.ALiBi()))


@each_position
@pytest.mark.parametrize("bos", [False, True])
def test_causality(position: Position, bos: bool) -> None:
    net = model(aq.Design(6, position=position, bos=bos), causal=True)
    x = random(2, 6, 8)
    changed = x.clone()
    changed[:, 4:] += 1
    torch.testing.assert_close(net(changed)[:, :4], net(x)[:, :4], rtol=0, atol=1e-12)
    torch.testing.assert_close(net(x[:, :4]), net(x)[:, :4], rtol=0, atol=1e-12)
    assert not torch.allclose(net(changed)[:, 4:], net(x)[:, 4:])


@each_position
@pytest.mark.parametrize("bos", [False, True])
def test_padding_changes_nothing(position: Position, bos: bool) -> None:
    net = model(aq.Design(7, position=position, bos=bos, patterns=aq.Window(2)))
    x = random(2, 7, 8)
    mask = torch.arange(7) < torch.tensor([[5], [7]])
    out = net(x, key_mask=mask)
    torch.testing.assert_close(out[0, :5], net(x[:1, :5])[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(out[1], net(x[1:])[0], rtol=0, atol=1e-12)


def test_urpe_shares_its_gain_or_not() -> None:
    shared = model(aq.Design(5, position=aq.URPE()), depth=3)
    own = model(aq.Design(5, position=aq.URPE(shared=False)), depth=3)
    tables = {name for name in shared.state_dict() if name.endswith("gain.table")}
    assert tables == {"gain.table"}
    assert sum(name.endswith("own_gain.table") for name in own.state_dict()) == 3
    assert sum(name.endswith("position.table") for name in shared.state_dict()) == 3  # B: per layer
    state = dict(shared.state_dict())
    gain = state.pop("gain.table")
    for name in own.state_dict():
        if name.endswith("own_gain.table"):
            state[name] = gain
        elif name.endswith("base.table"):
            state[name] = state.pop(name.replace("base.", ""))
    own.load_state_dict(state)
    x = random(2, 5, 8)
    torch.testing.assert_close(own(x), shared(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "position",
    [aq.RelativeBias(), aq.T5Bias(8, 16), aq.URPE(), aq.URPE(aq.T5Bias(8, 16), shared=False)],
    ids=str,
)
def test_layers_share_a_bias(position: Position) -> None:
    """The outputs are those of layers that have copies of the table each, also where a cache is
    used, and its gradient is the sum of theirs."""
    design = aq.Design(9, position=position)
    shared = model(design, depth=3, vocab=7, causal=True, shared_bias=True)
    own = model(design, depth=3, vocab=7, causal=True)
    state = dict(shared.state_dict())
    table = state.pop("bias.position.table")
    copies = [name for name in own.state_dict() if name not in state]
    own.load_state_dict(state | dict.fromkeys(copies, table))
    ids = torch.randint(7, (2, 9))
    found, expected = (
        torch.autograd.grad(net(ids).square().sum(), [net.get_parameter(name) for name in names])
        for net, names in ((shared, ["bias.position.table"]), (own, copies))
    )
    torch.testing.assert_close(own(ids), shared(ids), rtol=0, atol=1e-12)
    torch.testing.assert_close(found[0], torch.stack(expected).sum(0))
    for cache in (True, False):
        assert torch.equal(
            shared.generate(ids[:, :3], 6, cache=cache), own.generate(ids[:, :3], 6, cache=cache)
        )


@pytest.mark.parametrize("position", [aq.Absolute(), aq.ALiBi(), aq.URPE(aq.Rotary())], ids=str)
def test_without_a_learned_bias_there_is_nothing_to_share(position: Position) -> None:
    with pytest.raises(InvalidArgument, match=r"shared_bias=True, but .* learns no biases"):
        model(aq.Design(5, position=position), shared_bias=True)


def test_one_identical_token_shows_the_theorem_of_paper_c() -> None:
    x = random(1, 1, 8).expand(1, 6, 8)
    stuck = model(aq.Design(6, position=aq.RelativeBias()), norm="none")(x)
    free = model(aq.Design(6, position=aq.URPE()), norm="none")(x)
    torch.testing.assert_close(stuck, stuck[:, :1].expand_as(stuck), rtol=0, atol=1e-12)
    assert not torch.allclose(free, free[:, :1].expand_as(free), rtol=0, atol=1e-2)


@pytest.mark.parametrize("causal", [False, True])
def test_hybrids(causal: bool) -> None:
    layers = [aq.Layer(mixer=mixer) for mixer in OTHER_MIXERS]
    layers.append(aq.Layer(position=aq.URPE()))
    net = model(aq.Design(6, layers=layers), depth=len(layers), causal=causal)
    kinds = [type(block.mixer).__name__ for block in net.blocks]
    assert kinds == [
        "SeparableConv", "SeparableConv", "GatedRecurrence", "LinearAttentionMixer",
        "LinearAttentionMixer", "AverageMixer", "BilinearProjection", "Attention",
    ]  # fmt: skip
    x = random(2, 6, 8)
    mask = torch.arange(6) < torch.tensor([[4], [6]])
    torch.testing.assert_close(net(x, key_mask=mask)[0, :4], net(x[:1, :4])[0], rtol=0, atol=1e-12)
    cycled = model(aq.Design(6, layers=[aq.Layer(mixer="average"), aq.Layer()]), depth=4)
    kinds = [type(block.mixer).__name__ for block in cycled.blocks]
    assert kinds == ["AverageMixer", "Attention"] * 2


@pytest.mark.parametrize(
    "layers",
    [
        [aq.Layer(position=aq.URPE())],
        [aq.Layer(mixer=aq.Convolution(7)), aq.Layer(position=aq.URPE())],
        [aq.Layer(mixer="bilinear"), aq.Layer(mixer="average")],
        [aq.Layer(mixer="recurrence"), aq.Layer(position=aq.Rotary(), sinks=True)],
        [aq.Layer(mixer="linear"), aq.Layer(aq.Causal(), mixer="linear")],
    ],
)
def test_it_learns(layers: list[aq.Layer]) -> None:
    """Each token is to say what its left neighbour is."""
    torch.manual_seed(0)
    net = aq.nn.Transformer(aq.Design(8, layers=layers), 16, 2, heads=2, vocab=5)
    ids = torch.randint(5, (64, 8), generator=torch.Generator().manual_seed(0))
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    losses = []
    for _ in range(60):
        loss = functional.cross_entropy(net(ids)[:, 1:].flatten(0, 1), ids[:, :-1].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] * 0.75


@compiles
@pytest.mark.parametrize(
    ("position", "causal"),
    [
        (aq.URPE(), False),
        (aq.Rotary(), True),
        *(
            pytest.param(position, causal, marks=pytest.mark.long)
            for position, causal in [(aq.Absolute(), False), *((one, True) for one in POSITIONS)]
            if position != aq.Rotary()
        ),
    ],
    ids=str,
)
def test_it_compiles_whole(position: Position, causal: bool) -> None:
    torch.compiler.reset()
    design = aq.Design(6, patterns=aq.Strided(2), position=position, bos=True, sinks=True)
    others = [
        aq.Layer(mixer=aq.Convolution(7)),
        aq.Layer(mixer="recurrence"),
        aq.Layer(aq.Window(2) | aq.Global((0,)), mixer="linear"),
        aq.Layer(aq.Causal(), mixer="average"),
        aq.Layer(aq.Window(2), mixer="bilinear"),
    ]
    design = design.with_layers([*design.layer_cycle, *others])
    net = model(design, depth=6, causal=causal, vocab=7)
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    ids = torch.tensor([[1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 2, 2]])
    mask = torch.arange(6) < torch.tensor([[6], [4]])
    parameters = list(net.parameters())
    gradients = []
    for run in (net, compiled):
        out = run(ids, key_mask=mask)
        gradients.append(torch.autograd.grad(out.square().mean(), parameters))
    torch.testing.assert_close(compiled(ids), net(ids), rtol=0, atol=1e-12)
    for eager, traced in zip(*gradients, strict=True):
        torch.testing.assert_close(traced, eager, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "position", [aq.Absolute(), aq.Rotary(), aq.T5Bias(4, 8), aq.URPE()], ids=str
)
def test_gradients(position: Position) -> None:
    net = aq.nn.Transformer(
        aq.Design(3, position=position, bos=True, sinks=True), 4, 1, 1, hidden=3,
        dtype=torch.float64,
    )  # fmt: skip
    shaken(net)
    names = [name for name, _ in net.named_parameters()]

    def run(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        state = dict(zip(names, parameters, strict=True))
        return torch.as_tensor(torch.func.functional_call(net, state, (x,)))

    x = random(1, 3, 4).requires_grad_()
    assert torch.autograd.gradcheck(run, (x, *net.parameters()))


@each_position
def test_state_round_trip(position: Position) -> None:
    design = aq.Design(5, position=position, bos=True, sinks=True)
    net = model(design, vocab=7)
    with torch.device("meta"):
        copy = aq.nn.Transformer(design, 8, 2, heads=2, hidden=12, vocab=7, dtype=torch.float64)
    copy.to_empty(device="cpu").load_state_dict(net.state_dict())
    ids = torch.tensor([[1, 2, 3, 4, 5]])
    assert torch.equal(copy(ids), net(ids))
    storages = [value.data_ptr() for value in net.state_dict().values()]
    assert len(set(storages)) == len(storages), "no tensor is written twice"


def test_dropout_acts_in_training_only() -> None:
    torch.manual_seed(0)
    design = aq.Design(4, layers=[aq.Layer(mixer=aq.Convolution(7))])
    net = aq.nn.Transformer(design, 8, 1, heads=2, dropout=0.5)
    x = torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(0))
    assert not torch.equal(net(x), net(x))
    net.eval()
    assert torch.equal(net(x), net(x))


@pytest.mark.parametrize("ids", [[[0, 7]], [[0, -1]]])
def test_ids_outside_the_vocabulary_are_refused(ids: list[list[int]]) -> None:
    with pytest.raises(IndexError):
        model(aq.Design(4), vocab=7)(torch.tensor(ids))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: model(aq.Design(4, depth=3)), "depth=2, but the design has depth=3"),
        (lambda: model(aq.Design(4), depth=0), "depth=0"),
        (lambda: model(aq.Design(4), vocab=0), "vocab=0"),
        (lambda: aq.nn.Transformer(aq.Design(4), 8, 1, hidden=0), "hidden=0"),
        (lambda: model(aq.Design(4), norm="both"), "norm='both': expected one of 'pre', 'post'"),
        (
            lambda: model(aq.Design(4, block_norm="post"), norm="pre"),
            "norm='pre', but the design has block_norm='post'",
        ),
        (lambda: model(aq.Design(4, domain="ids")), "vocab=None, but the design has domain='ids'"),
        (
            lambda: model(aq.Design(4))(random(1, 5, 8)),
            "x has 5 tokens, the design has tokens=4",
        ),
        (lambda: model(aq.Design(4))(random(1, 0, 8)), "x has 0 tokens"),
        (lambda: model(aq.Design(4))(random(1, 4, 7)), r"x of shape \(1, 4, 7\): .* dim=8"),
        (lambda: model(aq.Design(4), vocab=5)(random(1, 4)), "expected ids, whole numbers"),
        (
            lambda: model(aq.Design(4))(random(1, 4, 8), key_mask=torch.ones(1, 3).bool()),
            r"key_mask of shape \(1, 3\): expected \(batch, tokens\) = \(1, 4\)",
        ),
        (
            lambda: model(aq.Design(4, layers=[aq.Layer(mixer="average")]))(
                random(1, 4, 8), key_mask=torch.ones(1, 4).bool(), cache=aq.nn.Cache(2, 4)
            ),
            "key_mask: not together with cache",
        ),
        (
            lambda: model(aq.Design(4, patterns=aq.Documents((2, 2))))(random(1, 3, 8)),
            r"x has 3 tokens, but pattern Documents\(lengths=\(2, 2\)\) is for 4 exactly",
        ),
    ],
)
def test_bad_arguments_are_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make()
