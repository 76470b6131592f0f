"""How far two outputs of a model may differ and still be the same number, rounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from anyseq.base import generator


class _Watch(TorchDispatchMode):
    """Counts operations that give floating-point tensors, and records their coarsest precision:
    some models take their softmax or norms in float32 whatever their weights are in."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.eps = 0, torch.finfo(torch.float64).eps

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor) and out.is_floating_point():
            self.count += 1
            self.eps = max(self.eps, torch.finfo(out.dtype).eps)
        return out


def rounding(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> float:
    """The size of what rounding does to outputs of `function` at x (batch, tokens, features).

    Each operation adds a relative error of eps, the precision of the coarsest one, and what
    follows carries it to the output as it carries a relative change of the input: by a factor that
    is measured here, with a change of √eps (the median, since a router may jump).
    """
    with _Watch() as watch:
        out = function(x).detach()
    step = watch.eps**0.5
    noise = torch.randn(x.shape, generator=generator(0), dtype=x.dtype)
    change = (function(x * (1 + step * noise)).detach() - out).abs().median() / step
    return float(watch.eps * watch.count * (out.abs().max() + change))
