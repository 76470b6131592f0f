"""Whatever somebody puts around a linear map inside a layer, or in its place, is called."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

import anyseq as aq

LAYERS = {
    "feed-forward": (lambda: aq.nn.FeedForward(8, 32), ("up_proj", "down_proj")),
    "attention": (lambda: aq.nn.Attention(8, 2), ("q_proj", "k_proj", "v_proj", "o_proj")),
}
PARTS = [(layer, part) for layer, (_, parts) in LAYERS.items() for part in parts]


def given(layer: str) -> tuple[nn.Module, torch.Tensor]:
    """A layer that goes its quickest way, and x."""
    torch.manual_seed(0)
    return LAYERS[layer][0](), torch.randn(4, 32, 8)


class Adapted(nn.Module):
    """A linear map with a low-rank one beside it, which shows the weights of the first as its own,
    as adapters do."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, 2, bias=False)
        self.up = nn.Linear(2, base.out_features, bias=False)

    @property
    def weight(self) -> torch.Tensor:
        return self.base.weight

    @property
    def bias(self) -> torch.Tensor | None:
        return self.base.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.base(x) + self.up(self.down(x))
        return out


class Doubled(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


@pytest.mark.parametrize(("layer", "part"), PARTS)
def test_hooks_fire(layer: str, part: str) -> None:
    module, x = given(layer)
    plain = module(x)
    calls: list[str] = []

    def after(module: nn.Module, inputs: Any, out: torch.Tensor) -> torch.Tensor:
        calls.append("after")
        return 0 * out

    inner = module.get_submodule(part)
    hooks = [
        inner.register_forward_pre_hook(lambda *_: calls.append("before")),
        inner.register_forward_hook(after),
        inner.register_full_backward_hook(lambda *_: calls.append("back")),
    ]
    module(x.requires_grad_()).sum().backward()
    assert calls == ["before", "after", "back"]
    assert not torch.allclose(module(x), plain)
    for hook in hooks:
        hook.remove()
    torch.testing.assert_close(module(x), plain)


def test_global_hooks_fire() -> None:
    seen: list[nn.Module] = []
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(module))
    try:
        for layer, (_, parts) in LAYERS.items():
            module, x = given(layer)
            module(x)
            assert {module.get_submodule(part) for part in parts} <= set(seen)
    finally:
        handle.remove()


@pytest.mark.parametrize(("layer", "part"), PARTS)
def test_adapters_count_and_learn(layer: str, part: str) -> None:
    module, x = given(layer)
    plain = module(x)
    adapted = Adapted(module.get_submodule(part))  # type: ignore[arg-type]
    setattr(module, part, adapted)
    out = module(x)
    assert not torch.allclose(out, plain)
    out.square().sum().backward()
    for weight in (adapted.up.weight, adapted.down.weight, adapted.base.weight):
        assert weight.grad is not None
        assert weight.grad.abs().max() > 0


@pytest.mark.parametrize(("layer", "part"), PARTS)
def test_subclasses_and_patched_instances_are_called(layer: str, part: str) -> None:
    module, x = given(layer)
    plain = module(x)
    one, other = copy.deepcopy(module), copy.deepcopy(module)
    inner: Any = one.get_submodule(part)
    inner.__class__ = Doubled
    patched: Any = other.get_submodule(part)
    patched.forward = lambda y: 2 * nn.Linear.forward(patched, y)
    torch.testing.assert_close(one(x), other(x))
    assert not torch.allclose(one(x), plain)


@pytest.mark.parametrize(("layer", "part"), PARTS)
def test_pruned_and_parametrised_weights_count(layer: str, part: str) -> None:
    module, x = given(layer)
    plain = module(x)
    inner = module.get_submodule(part)
    prune.l1_unstructured(inner, "weight", amount=0.5)
    pruned = module(x)
    assert not torch.allclose(pruned, plain)
    prune.remove(inner, "weight")
    torch.testing.assert_close(module(x), pruned)
    module, x = given(layer)
    inner = module.get_submodule(part)
    parametrizations.weight_norm(inner, "weight")
    torch.testing.assert_close(module(x), plain)
    size: Any = inner.get_parameter("parametrizations.weight.original0")
    size.data *= 3
    assert not torch.allclose(module(x), plain)
    module(x).square().sum().backward()
    grads = [weight.grad for weight in inner.parameters() if weight.requires_grad]
    assert all(grad is not None and grad.abs().max() > 0 for grad in grads)


@pytest.mark.parametrize("layer", LAYERS)
def test_dynamic_quantisation_works(layer: str) -> None:
    module, x = given(layer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch means to move it to another package
        small = torch.ao.quantization.quantize_dynamic(module, {nn.Linear}, dtype=torch.qint8)
        kinds = {type(small.get_submodule(part)) for part in LAYERS[layer][1]}
        out = small(x)
    assert nn.Linear not in kinds
    apart = (out - module(x)).abs().max()
    assert 0 < apart < 0.05
