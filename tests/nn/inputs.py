"""Random numbers for the tests of modules."""

from typing import TypeVar

import torch
from torch import nn

Module = TypeVar("Module", bound=nn.Module)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def shaken(module: Module, seed: int = 0) -> Module:
    """The module with random weights throughout: nothing stays at 0 or 1, where it would hide."""
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=rng, dtype=parameter.dtype)
            parameter.add_(noise / 3)
    return module
