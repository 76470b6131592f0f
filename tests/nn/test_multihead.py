"""Our MultiheadAttention against torch's, in float64."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import anyseq as aq
from anyseq.errors import InvalidArgument
from ops.cases import coin, random


def pair(pattern: Any = None, **options: Any) -> tuple[nn.MultiheadAttention, Any]:
    """torch's module with numbers everywhere, and ours with the same."""
    theirs = nn.MultiheadAttention(**({"embed_dim": 8, "num_heads": 2} | options)).double()
    with torch.no_grad():
        for at, parameter in enumerate(theirs.parameters()):
            parameter.copy_(random(*parameter.shape, seed=at))
    return theirs, aq.nn.MultiheadAttention.like(theirs, pattern)


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, Any], list[torch.Tensor], dict[str, Any]]:
    """Options of a module, the three sides, and the arguments of a call."""
    options: dict[str, Any] = {"bias": draw(st.booleans()), "batch_first": draw(st.booleans())}
    kdim = vdim = 8
    together = draw(st.booleans())
    if not together and draw(st.booleans()):
        kdim, vdim = options["kdim"], options["vdim"] = 6, 5
    n, m, batch = draw(st.integers(1, 7)), draw(st.integers(1, 7)), draw(st.integers(1, 3))
    m = n if together else m
    batched = draw(st.booleans())

    def side(tokens: int, size: int, seed: int) -> torch.Tensor:
        leading = (batch, tokens) if options["batch_first"] else (tokens, batch)
        return random(*(leading if batched else (tokens,)), size, seed=seed).requires_grad_()

    sides = [side(n, 8, 1), side(m, kdim, 2), side(m, vdim, 3)]
    sides = sides[:1] * 3 if together else sides
    rows = batch if batched else 1
    arguments: dict[str, Any] = {
        "need_weights": draw(st.booleans()),
        "average_attn_weights": draw(st.booleans()),
    }
    numbers = draw(st.booleans())  # torch warns of masks of two kinds
    if draw(st.booleans()):
        shape = draw(st.sampled_from([(n, m), (2 * rows, n, m)]))
        hidden = coin(*shape, seed=4)
        hidden[..., 0] = False  # so that torch has no row without keys
        arguments["attn_mask"] = random(*shape, seed=5) if numbers else hidden
    if draw(st.booleans()):
        hidden = coin(*((rows, m) if batched else (m,)), seed=6)
        hidden[..., 0] = False
        padding = torch.where(hidden, -torch.inf, 0.0).double() if numbers else hidden
        arguments["key_padding_mask"] = padding
    if n == m and "attn_mask" not in arguments and draw(st.booleans()):
        future = torch.ones(n, n, dtype=torch.bool).triu(1)
        if numbers:
            future = torch.where(future, -torch.inf, 0.0).double()
        arguments |= {"attn_mask": future, "is_causal": True}
    return options, sides, arguments


@settings(max_examples=100)
@given(cases())
def test_it_is_torchs(case: tuple[dict[str, Any], list[torch.Tensor], dict[str, Any]]) -> None:
    options, sides, arguments = case
    theirs, ours = pair(**options)
    results = []
    for module in (theirs, ours):
        out, weights = module(*sides, **arguments)
        wanted = [*dict.fromkeys(sides), *module.parameters()]
        total = (out * random(*out.shape, seed=9)).sum()
        if weights is not None:
            total = total + (weights * random(*weights.shape, seed=10)).sum()
        results.append((out, weights, *torch.autograd.grad(total, wanted)))
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=1e-9)


def test_weights_go_both_ways() -> None:
    for options in ({}, {"kdim": 6, "vdim": 5, "bias": False}):
        theirs, ours = pair(aq.Window(1), **options)
        back = nn.MultiheadAttention(8, 2, **options).double()
        back.load_state_dict(ours.state_dict())
        assert list(back.state_dict()) == list(theirs.state_dict())
        torch.testing.assert_close(back.state_dict(), theirs.state_dict())


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("how", ["alone", "attn_mask", "key_padding_mask", "is_causal"])
def test_a_pattern_is_a_mask_more(how: str, need_weights: bool) -> None:
    pattern = aq.Window(2)
    theirs, ours = pair(pattern, batch_first=True)
    x = random(3, 9, 8)
    hidden = ~pattern.mask(9)
    arguments: dict[str, Any] = {"need_weights": need_weights}
    own = dict(arguments)
    if how == "attn_mask":
        own["attn_mask"] = coin(9, 9) & ~torch.eye(9, dtype=torch.bool)
        hidden = hidden | own["attn_mask"]
    elif how == "is_causal":
        own["is_causal"] = True
        hidden = hidden | torch.ones(9, 9, dtype=torch.bool).triu(1)
    elif how == "key_padding_mask":
        own["key_padding_mask"] = torch.arange(9).expand(3, 9) == 8
        arguments["key_padding_mask"] = own["key_padding_mask"]
    expected = theirs(x, x, x, attn_mask=hidden, **arguments)
    torch.testing.assert_close(ours(x, x, x, **own), expected, rtol=0, atol=1e-9)


def test_a_row_that_sees_nothing_gives_the_bias() -> None:
    _, ours = pair()
    x = random(4, 1, 8)
    for need_weights in (True, False):
        padding = torch.ones(1, 4, dtype=torch.bool)
        out, _ = ours(x, x, x, key_padding_mask=padding, need_weights=need_weights)
        torch.testing.assert_close(out, ours.out_proj.bias.expand(4, 1, 8))


def encoder_layer(**options: Any) -> nn.TransformerEncoderLayer:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, **options)
    return layer.double()


@pytest.mark.parametrize("evaluating", [True, False])
def test_torchs_encoder_layer_asks_it(evaluating: bool) -> None:
    """Also in evaluation, without gradients, where torch would do the attention itself."""
    pattern, x = aq.Window(1), random(2, 9, 8)
    plain = encoder_layer().train(not evaluating)
    changed = copy.deepcopy(plain)
    changed.self_attn = aq.nn.MultiheadAttention.like(changed.self_attn, pattern)
    with torch.set_grad_enabled(not evaluating):
        expected = plain(x, src_mask=~pattern.mask(9))
        torch.testing.assert_close(changed(x), expected, rtol=0, atol=1e-9)
        assert not torch.allclose(changed(x), plain(x))


def test_torchs_encoder() -> None:
    pattern, x = aq.Window(2), random(2, 9, 8)
    layer = encoder_layer()
    plain = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    layer.self_attn = aq.nn.MultiheadAttention.like(layer.self_attn, pattern)
    changed = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    padding = torch.tensor([[False] * 9, [False] * 7 + [True] * 2])
    for told in ({}, {"src_key_padding_mask": padding}):
        with torch.no_grad():
            expected = plain(x, mask=~pattern.mask(9), **told)
            found = changed(x, **told)
        seen = ~padding  # torch's own may give rows of padding anything
        torch.testing.assert_close(found[seen], expected[seen], rtol=0, atol=1e-9)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_nested_tensors_are_refused_by_name() -> None:
    encoder = nn.TransformerEncoder(encoder_layer(), 1).eval()
    first: Any = encoder.layers[0]
    first.self_attn = aq.nn.MultiheadAttention.like(first.self_attn, aq.Window(1)).eval()
    padding = torch.tensor([[False] * 9, [False] * 7 + [True] * 2])
    with torch.no_grad(), pytest.raises(InvalidArgument, match="use_nested_tensor"):
        encoder(random(2, 9, 8), src_key_padding_mask=padding)


def test_mode_and_frozen_weights_are_taken_over() -> None:
    theirs = nn.MultiheadAttention(8, 2, dropout=0.25).eval()
    theirs.in_proj_weight.requires_grad_(False)
    ours = aq.nn.MultiheadAttention.like(theirs)
    assert not ours.training
    assert ours.dropout == 0.25
    assert not ours.in_proj_weight.requires_grad
    assert ours.out_proj.weight.requires_grad


def test_dropout_acts_in_training_only() -> None:
    ours = aq.nn.MultiheadAttention(8, 2, dropout=0.5, dtype=torch.float64)
    x = random(9, 1, 8)
    for need_weights in (True, False):
        ours.train()
        assert not torch.equal(
            ours(x, x, x, need_weights=need_weights)[0], ours(x, x, x, need_weights=need_weights)[0]
        )
        ours.eval()
        torch.testing.assert_close(
            ours(x, x, x, need_weights=need_weights)[0], ours(x, x, x, need_weights=need_weights)[0]
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"attn_mask": coin(3, 3)}, r"attn_mask of shape \(3, 3\)"),
        ({"key_padding_mask": coin(1, 3)}, r"key_padding_mask of shape \(1, 3\)"),
        ({"attn_mask": torch.zeros(4, 4).long()}, "attn_mask"),
    ],
)
def test_wrong_masks(arguments: dict[str, Any], message: str) -> None:
    _, ours = pair()
    x = random(4, 1, 8)
    with pytest.raises(InvalidArgument, match=message):
        ours(x, x, x, **arguments)


def test_keys_beside_the_sequence_are_refused() -> None:
    for name in ("add_bias_kv", "add_zero_attn"):
        with pytest.raises(InvalidArgument, match=name):
            aq.nn.MultiheadAttention.like(nn.MultiheadAttention(8, 2, **{name: True}))
    with pytest.raises(InvalidArgument, match="expected a torch"):
        aq.nn.MultiheadAttention.like(nn.Linear(8, 8))  # type: ignore[arg-type]
