"""Probes: they see what a module does, and leave it alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertForSequenceClassification, ViTConfig, ViTModel

import anyseq as aq
from anyseq.errors import InvalidArgument, UnsupportedModel
from anyseq.models import Probe, as_function, probe, read
from hf.zoo import ZOO, build

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")

ALL_DIFFER = {"bert", "roberta", "electra", "gpt2", "deberta-absolute", "longformer", "big_bird"}
ALL_DIFFER |= {"big_bird-one-layer", "gpt_oss", "mamba", "bert-no-layers"}
SYMMETRIC = {"mistral-1", "llama-no-layers", "deberta-no-terms", "deberta-nowhere"}


def reached(design: aq.Design) -> np.ndarray:
    """[k, j]: token j reaches token k, by walking backwards layer by layer."""
    out = np.zeros((design.tokens, design.tokens), dtype=bool)
    assert design.depth is not None
    for k in range(design.tokens):
        here = {k}
        for layer in reversed(range(design.depth)):
            mask = design.cycle[layer % len(design.cycle)].mask(design.tokens)
            here |= {j for i in here for j in range(design.tokens) if mask[i, j]}
        out[k, sorted(here)] = True
    return out


@pytest.mark.parametrize("name", ZOO)
def test_reading_agrees_with_probing(name: str) -> None:
    model, tokens = build(name)
    seen = probe(model, tokens)
    assert seen.trials == 4
    every = ("permutations", "reversal", "rotation")
    assert seen.equivariant == (every if name in SYMMETRIC else ())
    expected = range(tokens) if name in ALL_DIFFER else [0] * tokens
    assert seen.classes == tuple(expected)
    if name == "deberta" or "no-layers" in name:
        return
    design = read(model.config, tokens).design
    assert design is not None
    np.testing.assert_array_equal(seen.depends, reached(design))


class Mixer(nn.Module):
    """y = x + W x + positions, from parts that can be left out; (batch, tokens, 3)."""

    features = 3
    matrix: torch.Tensor | None

    def __init__(self, matrix: torch.Tensor | None = None, place: str = "") -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.register_buffer("matrix", matrix)
        self.place = place
        self.table = nn.Parameter(torch.zeros(64, 3)) if place == "learned" else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed = x.mean(1, keepdim=True) if self.matrix is None else self.matrix.to(x) @ x
        y = x + torch.tanh(self.inner(mixed) + x)
        places = torch.arange(x.shape[1]).to(x)[:, None]
        if self.place == "secret":
            y = y + 1e-6 * places  # not in any parameter
        return y if self.table is None else y + self.table[: x.shape[1]]


def kinds(seen: Probe) -> tuple[int, tuple[str, ...], int]:
    return len(set(seen.classes)), seen.equivariant, int(seen.depends.sum())


def test_symmetries() -> None:
    torch.manual_seed(0)
    ring = torch.eye(7) + 2 * torch.eye(7).roll(1, 0)
    mirror = (torch.arange(7)[:, None] - torch.arange(7)).abs().double().neg().exp()
    assert kinds(probe(Mixer(), 7)) == (1, ("permutations", "reversal", "rotation"), 49)
    assert kinds(probe(Mixer(ring), 7)) == (1, ("rotation",), 14)
    seen = probe(Mixer(mirror), 7)
    assert seen.equivariant == ("reversal",)
    assert seen.classes == (0, 1, 2, 3, 2, 1, 0)


@pytest.mark.parametrize("place", ["secret", "learned"])
def test_positions_are_caught(place: str) -> None:
    """Tiny ones in no parameter, and a table that starts at zero."""
    assert kinds(probe(Mixer(place=place), 6)) == (6, (), 36)


def test_dependence_too_small_to_see_in_a_change() -> None:
    matrix = torch.full((5, 5), 1e-30).triu() + torch.eye(5)
    np.testing.assert_array_equal(probe(Mixer(matrix), 5).depends, np.tri(5, dtype=bool).T)


class Steps(nn.Module):
    """Every output is the rounded running sum: no derivative tells anything."""

    features = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 100).round().cumsum(1)


def test_dependence_without_derivatives() -> None:
    seen = probe(Steps(), 5)
    np.testing.assert_array_equal(seen.depends, np.tri(5, dtype=bool))
    assert seen.trials == 1  # there are no weights


@pytest.mark.parametrize("name", ["bert", "big_bird", "llama"])
def test_the_model_is_left_alone(name: str) -> None:
    model, _ = build(name)
    model.train()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    kind = getattr(model, "attention_type", None)
    state = torch.random.get_rng_state()
    first, second = probe(model, 6), probe(model, 6)  # BigBird itself would turn full by this
    assert torch.equal(torch.random.get_rng_state(), state)
    assert model.training
    assert getattr(model, "attention_type", None) == kind
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert (first.classes, first.rounding) == (second.classes, second.rounding)
    np.testing.assert_array_equal(first.depends, second.depends)


def test_weights_come_back() -> None:
    function = as_function(Mixer())
    x = torch.rand(2, 4, 3, dtype=torch.float64)
    own = function(x)
    with function.random_weights(1):
        other = function(x)
    assert not torch.equal(own, other)
    assert torch.equal(function(x), own)


def test_a_head_that_reads_the_whole_sequence() -> None:
    seen = probe(BertForSequenceClassification(build("bert")[0].config), 5)
    assert seen.depends.all()


def test_one_token() -> None:
    seen = probe(Mixer(), 1)
    assert seen.classes == (0,)
    assert seen.equivariant == ()
    assert seen.depends.tolist() == [[True]]


class Raises(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("first line\nsecond line")


class Noise(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand(1, dtype=x.dtype, generator=self.rng)

    rng = torch.Generator().manual_seed(0)


BAD: dict[str, tuple[Any, str]] = {
    "raises": (Raises(), "Raises could not be run.*first line second line"),
    "three inputs": (nn.MultiheadAttention(4, 2), "MultiheadAttention could not be run"),
    "wrong shape": (nn.Flatten(), r"Flatten gave \(2, 4\)"),
    "tokens first": (nn.TransformerEncoderLayer(4, 2, 8), "batch first"),
    "random": (Noise(), "different outputs for the same input"),
    "meta": (nn.Linear(2, 2, device="meta"), "meta device"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_modules_are_one_line(case: str) -> None:
    module, words = BAD[case]
    with pytest.raises(InvalidArgument, match=words) as caught:
        probe(module, 4)
    assert "\n" not in str(caught.value)


def test_a_model_of_pictures() -> None:
    model = ViTModel(ViTConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=4))
    with pytest.raises(UnsupportedModel, match="ViTModel reads pixel_values"):
        probe(model, 4)


@pytest.mark.parametrize("tokens", [0, -3, 1.5])
def test_lengths_that_are_none(tokens: Any) -> None:
    with pytest.raises(InvalidArgument, match="tokens="):
        probe(Mixer(), tokens)


def test_long_sequences_are_run_a_few_at_a_time() -> None:
    """Each run keeps what gradients need: at 256 tokens not 256 sequences at once."""
    most = [0]

    class Mean(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            most.append(x.shape[0] * x.shape[1])
            return x.cumsum(1) / torch.arange(1, x.shape[1] + 1, dtype=x.dtype)[:, None]

    found = probe(as_function(Mean(), 1, 256), 256)
    assert max(most) <= 2048
    assert (found.depends == np.tri(256, dtype=bool)).all()
