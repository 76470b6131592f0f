"""Each position inside attention against its formula, pair by pair."""

import pytest
import torch

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.positions import Position
from nn.inputs import random, shaken

DIM, HEADS, SIZE, TOKENS = 8, 2, 4, 7


def layer(position: Position) -> aq.nn.Attention:
    module = aq.nn.Attention(DIM, HEADS, position=position, tokens=TOKENS, dtype=torch.float64)
    shaken(module)
    return module


def by_hand(
    module: aq.nn.Attention,
    x: torch.Tensor,
    bias: torch.Tensor,
    gain: torch.Tensor | float = 1.0,
    values: torch.Tensor | None = None,
) -> torch.Tensor:
    """softmax(q k / sqrt(size) + bias) ∘ gain, with vectors (n, n, size) added to the values."""
    n = x.shape[1]

    def heads(side: torch.nn.Linear) -> torch.Tensor:
        return torch.as_tensor(side(x)).view(len(x), n, HEADS, SIZE).transpose(1, 2)

    q, k, v = heads(module.q_proj), heads(module.k_proj), heads(module.v_proj)
    weights = (q @ k.transpose(2, 3) / SIZE**0.5 + bias).softmax(-1) * gain
    mixed = weights @ v
    if values is not None:
        mixed = mixed + torch.einsum("bhij,ijm->bhim", weights, values)
    return torch.as_tensor(mixed.transpose(1, 2).flatten(2) @ module.o_proj.weight.T)


@pytest.mark.parametrize("n", [1, 4, TOKENS])
def test_alibi(n: int) -> None:
    module, x = layer(aq.ALiBi()), random(2, n, DIM)
    bias = torch.tensor(
        [[[-(2.0**-4) * abs(i - j) for j in range(n)] for i in range(n)],
         [[-(2.0**-8) * abs(i - j) for j in range(n)] for i in range(n)]],
        dtype=torch.float64,
    )  # fmt: skip
    torch.testing.assert_close(module(x), by_hand(module, x, bias), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [1, 4, TOKENS])
def test_relative_bias(n: int) -> None:
    module, x = layer(aq.RelativeBias()), random(2, n, DIM)
    table = module.position.get_parameter("table")
    assert table.shape == (HEADS, 2 * TOKENS - 1)
    bias = torch.stack(
        [torch.stack([table[:, i - j + TOKENS - 1] for j in range(n)], -1) for i in range(n)], 1
    )
    torch.testing.assert_close(module(x), by_hand(module, x, bias), rtol=0, atol=1e-12)


def test_t5_bias() -> None:
    position = aq.T5Bias(4, 6)
    module, x = layer(position), random(2, TOKENS, DIM)
    table = module.position.get_parameter("table")
    offset = torch.arange(TOKENS)[:, None] - torch.arange(TOKENS)
    bias = table[:, position.label(offset)]
    torch.testing.assert_close(module(x), by_hand(module, x, bias), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [1, 4, TOKENS])
def test_shaw(n: int) -> None:
    module, x = layer(aq.Shaw(2)), random(2, n, DIM)
    label = (torch.arange(n)[:, None] - torch.arange(n)).clamp(-2, 2) + 2
    keys, values = (module.position.get_parameter(name)[label] for name in ("keys", "values"))
    q = module.q_proj(x).view(2, n, HEADS, SIZE)
    bias = torch.einsum("bihm,ijm->bhij", q, keys) / SIZE**0.5
    expected = by_hand(module, x, bias, values=values)
    torch.testing.assert_close(module(x), expected, rtol=0, atol=1e-12)


def test_urpe() -> None:
    module, x = layer(aq.URPE(shared=False)), random(2, 5, DIM)
    offset = torch.arange(5)[:, None] - torch.arange(5) + TOKENS - 1
    bias = module.position.get_parameter("base.table")[:, offset]
    gain = module.position.get_parameter("own_gain.table")[:, offset]
    torch.testing.assert_close(module(x), by_hand(module, x, bias, gain), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "base", [aq.RelativeBias(), aq.Rotary(), aq.ALiBi(), aq.T5Bias(), aq.Shaw(2), aq.NoPosition()]
)
def test_urpe_starts_at_its_base(base: Position) -> None:
    plain = layer(base)
    wrapped = aq.nn.Attention(
        DIM, HEADS, position=aq.URPE(base), tokens=TOKENS, dtype=torch.float64
    )
    state = {
        name.replace("position.", "position.base."): value
        for name, value in plain.state_dict().items()
    }
    assert wrapped.load_state_dict(state, strict=False).missing_keys == ["position.own_gain.table"]
    x = random(2, 6, DIM)
    torch.testing.assert_close(wrapped(x), plain(x), rtol=0, atol=1e-12)


def test_rotary_output_does_not_change_when_all_positions_shift() -> None:
    """Scores depend on i - j: computing at positions 20, 21, ... gives the same."""
    module, x = layer(aq.Rotary()), random(1, 5, DIM)
    q = module.q_proj(x).view(1, 5, HEADS, SIZE).transpose(1, 2)
    k = module.k_proj(x).view(1, 5, HEADS, SIZE).transpose(1, 2)
    here = module.position.turn(q, 0) @ module.position.turn(k, 0).transpose(2, 3)
    there = module.position.turn(q, 20) @ module.position.turn(k, 20).transpose(2, 3)
    torch.testing.assert_close(here, there, rtol=0, atol=1e-12)
    assert not torch.allclose(here, q @ k.transpose(2, 3))
    rotated = by_hand(module, x, (here - q @ k.transpose(2, 3)) / SIZE**0.5)
    torch.testing.assert_close(module(x), rotated, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("position", "escapes"),
    [
        (aq.RelativeBias(), False),
        (aq.T5Bias(4, 6), False),
        (aq.ALiBi(), False),
        (aq.Rotary(), False),
        (aq.URPE(), True),
        (aq.URPE(aq.NoPosition()), True),
        (aq.Shaw(2), True),
    ],
    ids=str,
)
def test_identical_tokens_stay_identical_unless_rows_may_sum_to_anything(
    position: Position, escapes: bool
) -> None:
    """The negative theorem of paper C, and what escapes it."""
    x = random(1, 1, DIM).expand(1, TOKENS, DIM)
    out = layer(position)(x).detach()
    spread = float((out - out[:, :1]).abs().max())
    assert spread > 1e-2 if escapes else spread < 1e-12


@pytest.mark.parametrize(
    "position", [aq.RelativeBias(), aq.T5Bias(4, 6), aq.Rotary(), aq.Shaw(1), aq.URPE()], ids=str
)
def test_gradients(position: Position) -> None:
    module = layer(position)
    names = [name for name, _ in module.position.named_parameters()]
    x = random(1, 3, DIM).requires_grad_()

    def run(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        state = dict(zip((f"position.{name}" for name in names), parameters, strict=True))
        return torch.as_tensor(torch.func.functional_call(module, state, (x,)))

    assert torch.autograd.gradcheck(run, (x, *(p for p in module.position.parameters())))


def test_bad_positions_are_named() -> None:
    with pytest.raises(InvalidArgument, match=r"Absolute.*acts on the input"):
        aq.nn.Attention(4, position=aq.Absolute())
    with pytest.raises(InvalidArgument, match="tokens=None: RelativeBias learns a number"):
        aq.nn.Attention(4, position=aq.RelativeBias())
    with pytest.raises(InvalidArgument, match="tokens=None: URPE learns a number"):
        aq.nn.Attention(4, position=aq.URPE(aq.ALiBi()))
    with pytest.raises(InvalidArgument, match="head_dim=3: Rotary turns pairs"):
        aq.nn.Attention(3, position=aq.Rotary())
    with pytest.raises(InvalidArgument, match="position='rotary'"):
        aq.nn.Attention(4, position="rotary")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="bias: given, but the position"):
        layer(aq.ALiBi())(random(1, 3, DIM), bias=torch.zeros(3, 3, dtype=torch.float64))
    with pytest.raises(InvalidArgument, match="offsets up to 6, but the sequence has offset 7"):
        layer(aq.RelativeBias())(random(1, TOKENS + 1, DIM))
