from typing import Any

import pytest
import torch

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.positions import Position
from nn.inputs import random, shaken

POSITIONS = [aq.NoPosition(), aq.Rotary(), aq.ALiBi(), aq.T5Bias(4, 6), aq.Shaw(2), aq.URPE()]


def test_shared_keys_are_repeated_keys() -> None:
    shared = aq.nn.Attention(8, heads=4, kv_heads=2, dtype=torch.float64)
    full = aq.nn.Attention(8, heads=4, dtype=torch.float64)
    state = dict(shared.state_dict())
    for name in ("k_proj.weight", "v_proj.weight"):
        state[name] = state[name].view(2, 2, 8).repeat_interleave(2, dim=0).flatten(0, 1)
    full.load_state_dict(state)
    x = random(2, 5, 8)
    torch.testing.assert_close(shared(x), full(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("biases", ["q", "", "qkvo"])
@pytest.mark.parametrize("kv_heads", [1, 4])
def test_many_rows_are_projected_by_one_product(biases: str, kv_heads: int) -> None:
    """Which is what few rows at a time give, forward and backward."""
    layer = shaken(aq.nn.Attention(8, 4, kv_heads=kv_heads, biases=biases, dtype=torch.float64))
    x = random(40, 5, 8).requires_grad_()
    inputs = [x, *layer.parameters()]
    found, wanted = layer(x), torch.cat([layer(part) for part in x.split(4)])
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    weight = random(40, 5, 8, seed=1)
    for one, other in zip(
        torch.autograd.grad((found * weight).sum(), inputs),
        torch.autograd.grad((wanted * weight).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-11)


@pytest.mark.parametrize("position", [aq.RelativeBias(), aq.URPE(), aq.URPE(shared=False)], ids=str)
@pytest.mark.parametrize("tokens", [9, 300])
def test_a_sequence_longer_than_the_tables_is_refused(position: Position, tokens: int) -> None:
    """Whether it is short or goes in tiles."""
    layer = aq.nn.Attention(8, 2, position=position, tokens=8)
    with pytest.raises(InvalidArgument, match=f"but the sequence has offset {tokens - 1}"):
        layer(torch.zeros(1, tokens, 8))


def test_biases_and_forwards_put_in_place_of_the_own_count() -> None:
    """However many rows there are."""
    x = random(40, 5, 8)

    def in_parts(layer: torch.nn.Module) -> torch.Tensor:
        return torch.cat([layer(part) for part in x.split(4)])

    for name in ("k_proj", "v_proj"):
        layer = aq.nn.Attention(8, 2, dtype=torch.float64)
        setattr(layer, name, torch.nn.Linear(8, 8, dtype=torch.float64))
        torch.testing.assert_close(layer(x), in_parts(layer), rtol=0, atol=1e-12)
    layer = aq.nn.Attention(8, 2, dtype=torch.float64)
    before = layer(x)
    own = layer.v_proj.forward
    layer.v_proj.__dict__["forward"] = lambda x: 2 * own(x)
    torch.testing.assert_close(layer(x), 2 * before, rtol=0, atol=1e-12)


def test_hooks_of_all_modules_run() -> None:
    seen: list[str] = []

    def note(module: torch.nn.Module, *rest: object) -> None:
        seen.append(type(module).__name__)

    layer, x = aq.nn.Attention(8, 2, dtype=torch.float64), random(40, 5, 8)
    handle = torch.nn.modules.module.register_module_forward_hook(note)
    try:
        layer(x)
    finally:
        handle.remove()
    assert seen.count("Linear") == 4
    seen.clear()
    layer.k_proj.register_full_backward_pre_hook(note)
    layer(x.requires_grad_()).sum().backward()
    assert seen == ["Linear"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"scale": float("nan")}, "scale=nan: expected a finite number"),
        ({"scale": True}, "scale=True"),
        ({"causal": "no"}, "causal='no': expected True or False"),
    ],
    ids=str,
)
def test_wrong_settings_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        aq.nn.Attention(8, 2, **wrong)


def test_a_cache_is_for_one_batch() -> None:
    layer, cache = aq.nn.Attention(8, 2, causal=True), aq.nn.LayerCache(9)
    with torch.no_grad():
        layer(torch.randn(2, 3, 8), cache=cache)
        with pytest.raises(InvalidArgument, match="begin a new cache for another batch"):
            layer(torch.randn(1, 1, 8), cache=cache)


def test_projections_that_somebody_changed_are_called() -> None:
    """Hooks run, and a module put in the place of a projection is used, whatever the rows."""
    layer, x = aq.nn.Attention(8, 2, dtype=torch.float64), random(40, 5, 8)
    seen: list[torch.Tensor] = []
    hook = layer.k_proj.register_forward_hook(lambda module, given, out: seen.append(out))
    before = layer(x)
    assert torch.equal(seen[0], layer.k_proj(x))
    hook.remove()

    class Twice(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    changed = Twice(8, 8, bias=False, dtype=torch.float64)
    changed.load_state_dict(layer.v_proj.state_dict())
    layer.v_proj = changed
    torch.testing.assert_close(layer(x), 2 * before, rtol=0, atol=1e-12)


@pytest.mark.parametrize("position", POSITIONS, ids=str)
def test_causal_attention_with_a_cache(position: Position) -> None:
    """Token by token, or in pieces, is the same as all at once."""
    layer = shaken(
        aq.nn.Attention(
            8,
            heads=2,
            kv_heads=1,
            causal=True,
            pattern=aq.Window(3),
            position=position,
            tokens=9,
            sinks=True,
            dtype=torch.float64,
        )
    )
    x = random(2, 9, 8)
    cache = aq.nn.LayerCache(9)
    with torch.no_grad():
        pieces = [layer(part, cache=cache) for part in x.split([4, 1, 1, 3], dim=1)]
    torch.testing.assert_close(torch.cat(pieces, 1), layer(x), rtol=0, atol=1e-12)
    with pytest.raises(InvalidArgument, match="10 tokens in a cache of 9"):
        layer(x[:, :1], cache=cache)


@pytest.mark.parametrize("position", POSITIONS, ids=str)
def test_padding_is_not_seen(position: Position) -> None:
    layer = shaken(
        aq.nn.Attention(8, heads=2, position=position, tokens=9, sinks=True, dtype=torch.float64)
    )
    x = random(2, 9, 8)
    mask = torch.arange(9) < torch.tensor([[6], [9]])
    out = layer(x, key_mask=mask)
    torch.testing.assert_close(out[0, :6], layer(x[:1, :6])[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(out[1], layer(x[1:])[0], rtol=0, atol=1e-12)


def test_a_sink_is_one_more_score_without_a_value() -> None:
    layer = shaken(aq.nn.Attention(6, heads=2, sinks=True, dtype=torch.float64))
    assert isinstance(layer, aq.nn.Attention)
    assert layer.sink is not None
    x = random(2, 4, 6)
    q, k, v = (
        side(x).view(2, 4, 2, 3).transpose(1, 2)
        for side in (layer.q_proj, layer.k_proj, layer.v_proj)
    )
    scores = q @ k.transpose(2, 3) / 3**0.5
    sink = layer.sink[:, None, None].expand(2, 2, 4, 1)
    weights = torch.cat([scores, sink], -1).softmax(-1)[..., :-1]
    expected = (weights @ v).transpose(1, 2).flatten(2) @ layer.o_proj.weight.T
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-12)


def test_gradients_flow_through_a_sink() -> None:
    layer = shaken(aq.nn.Attention(4, heads=2, sinks=True, dtype=torch.float64))
    x = random(2, 3, 4).requires_grad_()
    mask = torch.tensor([[True, True, False], [False, False, False]])  # the second sees nothing

    def run(x: torch.Tensor, sink: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(
            torch.func.functional_call(layer, {"sink": sink}, (x,), {"key_mask": mask})
        )

    assert torch.autograd.gradcheck(run, (x, layer.get_parameter("sink")))
    assert torch.equal(layer(x, key_mask=mask)[1], torch.zeros(3, 4, dtype=torch.float64))


def test_dropout_acts_in_training_only() -> None:
    torch.manual_seed(0)
    layer = aq.nn.Attention(8, heads=2, dropout=0.5, dtype=torch.float64)
    x = random(1, 6, 8)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


@pytest.mark.parametrize("prob_map", ["softmax", "sparsemax", "entmax15", "hardmax", "topk(2)"])
def test_a_sink_is_a_key_without_a_value(prob_map: str) -> None:
    """Against one more token, of which the others see only its score, and whose value is 0."""
    layer = aq.nn.Attention(8, heads=2, sinks=True, prob_map=prob_map, dtype=torch.float64)
    assert layer.sink is not None
    with torch.no_grad():
        layer.sink.copy_(torch.tensor([0.3, -0.2]))
    x = random(1, 5, 8)
    q, k, v = (part(x).view(1, 5, 2, 4).transpose(1, 2)
               for part in (layer.q_proj, layer.k_proj, layer.v_proj))  # fmt: skip
    scores = torch.cat(
        [q @ k.transpose(2, 3) / 2, layer.sink.view(1, 2, 1, 1).expand(1, 2, 5, 1)], 3
    )
    beside = torch.cat([v, torch.zeros(1, 2, 1, 4, dtype=torch.float64)], 2)
    wanted = (layer.prob_map(scores) @ beside).transpose(1, 2).reshape(1, 5, 8)
    assert torch.allclose(layer(x), layer.o_proj(wanted), rtol=0, atol=1e-12)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InvalidArgument, match="kv_heads=3: expected a divisor of heads=4"):
        aq.nn.Attention(8, heads=4, kv_heads=3)
    with pytest.raises(InvalidArgument, match=r"dropout=1.0: expected a number in \[0, 1\)"):
        aq.nn.Attention(8, dropout=1.0)
    with pytest.raises(InvalidArgument, match="key_mask of dtype"):
        aq.nn.Attention(8)(torch.zeros(1, 3, 8), key_mask=torch.ones(1, 2, dtype=torch.bool))
