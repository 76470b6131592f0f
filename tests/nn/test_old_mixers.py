"""`Transformer(mixers=...)`: deprecated, and still what it was."""

from typing import Any

import pytest
import torch

import anyseq as aq
from anyseq.errors import InvalidArgument
from nn.inputs import random

WARNING = r"Transformer\(mixers=\.\.\.\) will be an error in anyseq 0\.2"


def model(design: aq.Design, depth: int = 2, **options: Any) -> aq.nn.Transformer:
    torch.manual_seed(0)
    return aq.nn.Transformer(design, 8, depth, heads=2, dtype=torch.float64, **options)


@pytest.mark.parametrize("causal", [False, True])
def test_names_become_layers(causal: bool) -> None:
    old = aq.Design(6, patterns=(aq.Window(1), aq.Full()), position=aq.URPE(), bos=True)
    mixers = ("attention", "conv", "bilinear", "average")
    with pytest.warns(DeprecationWarning, match=WARNING) as caught:
        net = model(old, depth=4, causal=causal, mixers=mixers)
    assert "Layer(...), Layer(mixer=Convolution(width=7" in str(caught[0].message)
    assert caught[0].filename == __file__
    layers = [
        aq.Layer(aq.Window(1), aq.URPE()),
        aq.Layer(mixer=aq.Convolution(7)),
        aq.Layer(mixer="bilinear"),
        aq.Layer(mixer="average"),
    ]
    now = aq.Design(6, layers=layers, position=aq.NoPosition(), bos=True)
    assert net.design == now
    same = model(now, depth=4, causal=causal)
    assert list(net.state_dict()) == list(same.state_dict())
    x = random(2, 6, 8)
    assert torch.equal(net(x), same(x))


def test_one_name_is_for_all_layers() -> None:
    with pytest.warns(DeprecationWarning, match=WARNING):
        net = model(aq.Design(6), mixers="bilinear")
    assert all(isinstance(block.mixer, aq.nn.BilinearProjection) for block in net.blocks)


def test_a_module_is_used_as_it_is() -> None:
    conv = aq.nn.SeparableConv(8, 4, dtype=torch.float64)
    with pytest.warns(DeprecationWarning, match=r"model\.blocks\[i\]\.mixer = module"):
        net = model(aq.Design(6, position=aq.URPE()), mixers=[conv, "attention"])
    assert net.blocks[0].mixer is conv
    replaced = model(aq.Design(6, position=aq.URPE()))
    replaced.blocks[0].mixer = conv
    replaced.load_state_dict(net.state_dict())
    assert torch.equal(net(random(1, 6, 8)), replaced(random(1, 6, 8)))


@pytest.mark.parametrize(
    ("mixers", "message"),
    [
        (["fft", "conv"], "mixers='fft'"),
        (["conv"] * 3, "mixers: 3 for depth=2"),
        ([], "mixers: 0 for depth=2"),
        ([3], "mixers: 3; expected 'attention'"),
        ([aq.nn.SeparableConv(6)], "has dim 6, expected 8"),
        ([aq.nn.SeparableConv(8, causal=True)], "causal=True, the Transformer has causal=False"),
    ],
)
def test_bad_arguments_are_named(mixers: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        model(aq.Design(4), mixers=mixers)
