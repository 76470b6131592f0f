"""A Transformer in a folder, and under another design."""

from pathlib import Path
from typing import Any

import pytest
import torch

import anyseq as aq
from anyseq.errors import FileProblem, InvalidArgument
from anyseq.nn import Norms
from anyseq.positions import YaRN
from nn.inputs import shaken

IDS = torch.tensor([[1, 2, 3, 4, 5]])


def model(design: aq.Design, **options: Any) -> aq.nn.Transformer:
    usual: dict[str, Any] = {"dtype": torch.float64, "vocab": 7, "heads": 2}
    return shaken(aq.nn.Transformer(design, 8, 2, **usual | options))


@pytest.mark.parametrize(
    ("design", "options"),
    [
        (aq.Design(8), {}),
        (aq.Design(8, position=aq.URPE(), bos=True, sinks=True), {"causal": True}),
        (
            aq.Design(
                8,
                layers=[
                    aq.Layer(aq.Window(2), aq.Rotary(share=0.5, scaling=YaRN(4.0, 16))),
                    aq.Layer(mixer=aq.Convolution(3)),
                ],
                position=aq.NoPosition(),
                final_norm="learned-rmsnorm",
            ),
            {
                "norms": Norms("rmsnorm", 1e-6),
                "norm": "sandwich",
                "activation": "swiglu",
                "qk_norm": "layernorm",
                "head": "untied",
                "dtype": torch.bfloat16,
                "causal": True,
                "gate": True,
                "softcap": 5.0,
            },
        ),
        (aq.Design(8, position=aq.T5Bias(8, 16)), {"shared_bias": True, "head": "masked-lm"}),
    ],
    ids=["plain", "urpe", "parts", "shared"],
)
def test_saved_is_loaded(design: aq.Design, options: dict[str, Any], tmp_path: Path) -> None:
    net = model(design, **options)
    net.save(tmp_path / "net")
    state = torch.random.get_rng_state()
    again = aq.nn.Transformer.load(tmp_path / "net")
    assert torch.equal(torch.random.get_rng_state(), state)
    assert again.settings == net.settings
    assert torch.equal(again(IDS), net(IDS))
    assert sorted(file.name for file in (tmp_path / "net").iterdir()) == [
        "about.json",
        "model.safetensors",
    ]


def test_every_argument_is_saved() -> None:
    from inspect import signature

    names = set(signature(aq.nn.Transformer.__init__).parameters)
    assert names - set(model(aq.Design(8)).settings) == {"self", "mixers", "dtype", "device"}


def test_what_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    net = model(aq.Design(8))
    net.blocks[1].feedforward = aq.nn.FeedForward(8, 5, dtype=torch.float64)
    with pytest.raises(InvalidArgument, match=r"blocks\.1\.feedforward\.down_proj\.weight and"):
        net.save(tmp_path / "net")
    with pytest.raises(FileProblem):
        aq.nn.Transformer.load(tmp_path / "net")


def test_another_pattern_with_the_same_weights() -> None:
    net = model(aq.Design(8, position=aq.Rotary()), causal=True)
    sparse = net.with_design(aq.Design(8, patterns=aq.Window(1), position=aq.Rotary()))
    assert not torch.equal(sparse(IDS), net(IDS))
    assert torch.equal(sparse.with_design(net.design)(IDS), net(IDS))
    gained = net.with_design(aq.Design(8, position=aq.URPE(aq.Rotary())))
    torch.testing.assert_close(gained(IDS), net(IDS), rtol=0, atol=1e-12)
    assert gained.gain is not None
    gained(IDS).square().sum().backward()
    assert all(one.grad is not None for one in gained.parameters())
    assert all(one.grad is None for one in net.parameters())
    with pytest.raises(InvalidArgument, match="it has no place for blocks"):
        net.with_design(aq.Design(8, layers=[aq.Layer(mixer="recurrence")]))
    with pytest.raises(InvalidArgument, match=r"position\.table would have .* tokens=8"):
        model(aq.Design(8)).with_design(aq.Design(9))
