"""An audit leaves the model and the process as they were before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


@contextmanager
def left_as_it_was(model: torch.nn.Module) -> Iterator[None]:
    """Attributes, what they contain, modes, hooks, weights, buffers and gradients of a model."""
    attributes = [(module, dict(module.__dict__)) for module in model.modules()]
    contents = [
        (one, one.copy())
        for _, before in attributes
        for one in before.values()
        if isinstance(one, dict | list | set)
    ]
    buffers = [(one, one.detach().clone()) for one in model.buffers() if not one.is_meta]
    learned = [(one, one.requires_grad, one.grad) for one in model.parameters()]
    try:
        yield
    finally:
        for module, before in attributes:
            module.__dict__.clear()
            module.__dict__.update(before)
        for one, held in contents:
            _refill(one, held)
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
        for parameter, requires_grad, gradient in learned:
            parameter.requires_grad_(requires_grad)
            parameter.grad = gradient


def _refill(container: Any, held: Any) -> None:
    container.clear()
    if isinstance(container, list):
        container.extend(held)
    else:
        container.update(held)


@contextmanager
def same_random_numbers() -> Iterator[None]:
    """Torch, numpy and Python draw afterwards what they would have drawn: some models seed them."""
    plain, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(plain)
        np.random.set_state(of_numpy)  # noqa: NPY002
