"""An audit leaves the model, and the process, as they were."""

from __future__ import annotations

import random
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import logging

import anyseq as aq
from models.faults.families import seeded, tiny
from models.faults.healthy import HEALTHY
from models.faults.modules import Decoder, encoder


class Locked(nn.Module):
    """A module that nobody can copy, with a buffer and a list that change as it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.mixes = Decoder()
        self.met: list[int] = []
        self.runs: torch.Tensor
        self.register_buffer("runs", torch.zeros(1))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        self.met.append(len(ids))
        self.runs += 1
        if "last" not in self._buffers:
            self.register_buffer("last", ids)
        out: torch.Tensor = self.mixes(ids)
        return out


MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {
    name: HEALTHY[name]
    for name in ("gpt2", "bigbird", "mamba", "gemma3, eager", "olmoe", "t5", "llama, bfloat16",
                 "llama, classifier", "own, causal", "own, after use", "mistral, wide window")
} | {
    "torch's encoder": lambda: (seeded(encoder), aq.Full()),
    "no copy": lambda: (seeded(Locked), aq.Causal()),
    "dropout": lambda: (tiny("BertModel", hidden_dropout_prob=0.5), None),
}  # fmt: skip


class Enough(Exception):
    pass


def in_use(make: Callable[[], tuple[Any, Any]]) -> tuple[Any, Any]:
    """The model as it is amid training: some parts frozen, some in evaluation mode, with gradients
    and a hook."""
    with warnings.catch_warnings(action="ignore"):
        model, declared = make()
    model.train()
    parts = list(model.modules())
    parts[len(parts) // 2].eval()
    for number, one in enumerate(model.parameters()):
        one.requires_grad_(number % 3 > 0)
        one.grad = torch.full_like(one, number) if number % 2 else None
    parts[-1].register_forward_hook(lambda module, args, out: out)
    return model, declared


def state(model: nn.Module) -> Iterator[Any]:
    """All that might have changed, in an order of its own."""
    for name, module in model.named_modules():
        yield name, type(module), id(module), module.training, sorted(module.__dict__)
        for inner in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_modules"):
            yield list(module.__dict__[inner].items())
        yield [repr(one) for one in module.__dict__.values() if isinstance(one, list)]
        config: Any = getattr(module, "config", None)
        if hasattr(config, "to_dict"):
            yield repr(config.to_dict()), config._attn_implementation
    for name, one in model.named_parameters():
        yield name, id(one), one.requires_grad, id(one.grad), bits(one), bits(one.grad)
    for name, buffer in model.named_buffers():
        yield name, id(buffer), bits(buffer)
    yield bits(torch.get_rng_state()), torch.get_default_dtype(), torch.get_num_threads()
    yield random.getstate(), repr(np.random.get_state())  # noqa: NPY002
    yield torch.is_grad_enabled(), logging.get_verbosity(), list(warnings.filters)


def bits(one: torch.Tensor | None) -> Any:
    if one is None:
        return None
    return one.detach().reshape(-1).view(torch.uint8).numpy().tobytes(), one.dtype


@pytest.mark.parametrize("name", MODELS)
def test_the_model_and_the_process_are_left_as_they_were(name: str) -> None:
    model, declared = in_use(MODELS[name])
    before = list(state(model))
    audit = aq.audit(model, declared)
    assert list(state(model)) == before
    assert audit.passed, str(audit)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("steps", [1, 3, 7])
def test_also_if_the_audit_is_broken_off(name: str, steps: int) -> None:
    model, declared = in_use(MODELS[name])
    before = list(state(model))

    def stop(what: str, done: int, total: int) -> None:
        if done == steps:
            raise Enough

    with pytest.raises(Enough):
        aq.audit(model, declared, progress=stop)
    assert list(state(model)) == before


def test_also_if_the_model_fails_amid_an_audit() -> None:
    class Fails(Decoder):
        left = 12

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            self.left -= 1
            if self.left < 0:
                raise RuntimeError("enough")
            return super().forward(ids)

    model, declared = in_use(lambda: (seeded(Fails), aq.Causal()))
    before = list(state(model))
    audit = aq.audit(model, declared)
    assert list(state(model)) == before
    assert any("enough" in one.says for one in audit.skipped)


def test_a_config_leaves_no_trace_either() -> None:
    before = list(state(nn.Identity()))
    config = {"model_type": "big_bird", "num_hidden_layers": 1}
    assert aq.audit(config).passed
    assert list(state(nn.Identity()))[1:] == before[1:]
