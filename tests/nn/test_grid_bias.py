"""GridBias in layers and models, against loops over the cells of an array."""

from __future__ import annotations

from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.nn.writer import make_cache
from nn.inputs import random, shaken

DIM, HEADS, SIZE = 8, 2, 4


def biases(table: torch.Tensor, shape: tuple[int, ...], n: int) -> torch.Tensor:
    """(HEADS, n, n) of the first n cells."""
    cells = list(product(*map(range, shape)))[:n]
    rows = []
    for one in cells:
        row = []
        for other in cells:
            at = [a - b + length - 1 for a, b, length in zip(one, other, shape, strict=True)]
            row.append(table.movedim(0, -1)[tuple(at)])
        rows.append(torch.stack(row, -1))
    return torch.stack(rows, 1)


def by_hand(
    module: aq.nn.Attention, x: torch.Tensor, bias: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    n = x.shape[1]

    def heads(side: torch.nn.Linear) -> torch.Tensor:
        return torch.as_tensor(side(x)).view(len(x), n, HEADS, SIZE).transpose(1, 2)

    q, k, v = heads(module.q_proj), heads(module.k_proj), heads(module.v_proj)
    scores = (q @ k.mT / SIZE**0.5 + bias).masked_fill(~mask, -torch.inf)
    return torch.as_tensor((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
                           @ module.o_proj.weight.T)  # fmt: skip


def layer(
    shape: tuple[int, ...], pattern: aq.Pattern | None = None, backend: str = "auto"
) -> aq.nn.Attention:
    position, dtype = aq.GridBias(shape), torch.float64
    return shaken(
        aq.nn.Attention(
            DIM, HEADS, pattern=pattern, position=position, dtype=dtype, backend=backend
        )
    )


def tables(model: aq.nn.Transformer) -> list[torch.Tensor]:
    return [one for name, one in model.named_parameters() if name.endswith("position.table")]


def model_of(design: aq.Design, **arguments: Any) -> aq.nn.Transformer:
    torch.manual_seed(0)
    model = aq.nn.Transformer(design, DIM, 2, HEADS, dtype=torch.float64, **arguments)
    return shaken(model)


@pytest.mark.parametrize("backend", ["auto", "reference", "native", "tiles"])
@pytest.mark.parametrize(
    ("shape", "pattern"),
    [
        ((3, 4), aq.Full()),
        ((3, 4), aq.Neighbourhood((3, 4), 1)),
        ((4, 4), aq.ShiftedWindows((4, 4), 2, 1)),
        ((2, 3, 2), aq.Full()),
        ((2, 3, 3), aq.Neighbourhood((2, 3, 3), 1)),
        ((2, 4, 2), aq.ShiftedWindows((2, 4, 2), 2, (0, 1, 1))),
    ],
    ids=str,
)
def test_outputs_and_gradients(shape: tuple[int, ...], pattern: aq.Pattern, backend: str) -> None:
    n = prod(shape)
    module = layer(shape, pattern, backend)
    x, into = random(2, n, DIM), random(2, n, DIM, seed=1)
    table = module.position.get_parameter("table")
    assert table.shape == (HEADS, *(2 * length - 1 for length in shape))
    expected = by_hand(module, x, biases(table, shape, n), pattern.mask(n))
    out = module(x)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    for name, parameter in module.named_parameters():
        wanted = torch.autograd.grad((expected * into).sum(), parameter, retain_graph=True)
        found = torch.autograd.grad((out * into).sum(), parameter, retain_graph=True)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-11, msg=name)


@pytest.mark.parametrize("n", [1, 3, 7, 12])
def test_a_sequence_may_end_before_the_array(n: int) -> None:
    module = layer((3, 4))
    table, x = module.position.get_parameter("table"), random(2, n, DIM)
    expected = by_hand(module, x, biases(table, (3, 4), n), torch.ones(n, n, dtype=torch.bool))
    torch.testing.assert_close(module(x), expected, rtol=0, atol=1e-12)


def test_a_sequence_longer_than_the_array_is_named() -> None:
    module = aq.nn.Attention(DIM, HEADS, position=aq.GridBias((3, 4)))
    with pytest.raises(InvalidArgument, match=r"^bias: an array of shape \(3, 4\) has 12 tokens"):
        module(torch.zeros(1, 13, DIM))


@pytest.mark.parametrize(
    "patterns",
    [
        aq.Neighbourhood((6, 6), 1),
        (aq.ShiftedWindows((6, 6), 3), aq.ShiftedWindows((6, 6), 3, 1)),
    ],
    ids=["Neighbourhood", "ShiftedWindows"],
)
def test_training(patterns: aq.Pattern | tuple[aq.Pattern, ...]) -> None:
    """A cell is to tell its left neighbour's value: by the bias, since contents do not say it."""
    torch.manual_seed(0)
    design = aq.Design(36, patterns, position=aq.GridBias((6, 6)))
    model = aq.nn.Transformer(design, 16, 2, 2)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    images = torch.randn(16, 6, 6)
    wanted = images.roll(1, 2)
    wanted[:, :, 0] = 0.0
    x = torch.zeros(16, 36, 16)
    x[..., 0] = images.flatten(1)
    before = [table.detach().clone() for table in tables(model)]
    losses = []
    for _ in range(80):
        loss = (model(x)[..., 1] - wanted.flatten(1)).square().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    for table, old in zip(tables(model), before, strict=True):
        assert not torch.equal(table, old)


@pytest.mark.parametrize("shared", [False, True])
def test_save_and_load(tmp_path: Path, shared: bool) -> None:
    pattern, position = aq.Neighbourhood((3, 4), 1), aq.URPE(aq.GridBias((3, 4)))
    model = model_of(aq.Design(12, pattern, position=position), shared_bias=shared)
    names = dict(model.named_parameters())
    table = "bias.position.table" if shared else "blocks.0.mixer.position.table"
    assert names[table].shape == (HEADS, 5, 7)
    assert table in model.no_decay
    model.save(tmp_path / "model")
    again = aq.nn.Transformer.load(tmp_path / "model")
    x = random(2, 12, DIM)
    assert again.design == model.design
    assert torch.equal(again(x), model(x))


def test_layers_that_share_a_table_are_those_with_equal_ones() -> None:
    design = aq.Design(12, position=aq.GridBias((3, 4)))
    shared, apart = model_of(design, shared_bias=True), model_of(design)
    with torch.no_grad():
        for name, weight in apart.named_parameters():
            if not name.endswith("position.table"):
                weight.copy_(shared.get_parameter(name))
            else:
                weight.copy_(shared.get_parameter("bias.position.table"))
    x = random(2, 12, DIM)
    torch.testing.assert_close(shared(x), apart(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    "pattern",
    [aq.Full(), aq.Window(3), aq.Window(5), aq.Fixed(4), aq.Window(2) | aq.Global((0,))],
    ids=str,
)
def test_a_cache_gives_the_same(pattern: aq.Pattern, shared: bool) -> None:
    """Also one that has forgotten keys, so that numbers of keys are no positions."""
    design = aq.Design(48, pattern & aq.Causal(), position=aq.GridBias((8, 6)), domain="ids")
    model = model_of(design, vocab=11, causal=True, shared_bias=shared).eval()
    ids = torch.randint(11, (2, 48), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        whole, cache, parts = model(ids), make_cache(model), []
        for part in ids.split([5, 1, 1, 3, *[1] * 38], dim=1):
            parts.append(model(part, cache=cache))
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=1e-10)
    with_cache, without = (model.generate(ids[:, :7], 41, cache=cache) for cache in (True, False))
    assert torch.equal(with_cache, without)


@pytest.mark.parametrize("shared", [False, True])
def test_arrays_begin_with_the_row(shared: bool) -> None:
    """Documents and padding on the left would put token i into another cell than cell i."""
    design = aq.Design(12, position=aq.GridBias((3, 4)), domain="ids")
    model = model_of(design, vocab=11, causal=True, shared_bias=shared)
    ids = torch.zeros(2, 6, dtype=torch.int64)
    padded = torch.tensor([[False, False, True, True, True, True], [True] * 6])
    for arguments in (
        {"document_ids": torch.tensor([[0, 0, 0, 1, 1, 1]] * 2)},
        {"positions": torch.arange(6).expand(2, 6)},
    ):
        with pytest.raises(InvalidArgument, match=r"positions.* shape \(3, 4\).*one array a row"):
            model(ids, **arguments)
    with pytest.raises(InvalidArgument, match=r"one array a row, without padding before it"):
        model.generate(ids, 2, key_mask=padded)
    assert model(ids, key_mask=padded.flip(1)).isfinite().all()
