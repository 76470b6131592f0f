"""Exported graphs: one for a range of lengths, of plain operators, the same as the module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import anyseq as aq
from ops.cases import random

LONGEST = 300
LENGTHS = (2, 3, 63, 64, 65, 128, 200, 256, 300)

MODULES: Mapping[str, Callable[[], nn.Module]] = {
    "dense": lambda: aq.nn.Attention(8, 2),
    "causal": lambda: aq.nn.Attention(8, 2, causal=True),
    "window": lambda: aq.nn.Attention(8, 2, pattern=aq.Window(3)),
    "causal windows, grouped": lambda: aq.nn.Attention(
        8, 4, kv_heads=2, pattern=aq.PerHead(aq.Window(40), aq.Dilated(2, 3)), causal=True
    ),
    "sinks": lambda: aq.nn.Attention(8, 2, pattern=aq.Window(5) & aq.Causal(), sinks=True),
    "star": lambda: aq.nn.Attention(8, 2, pattern=aq.Star(2)),
    "URPE": lambda: aq.nn.Attention(8, 2, position=aq.URPE(), tokens=LONGEST),
    "URPE, window": lambda: aq.nn.Attention(
        8, 2, position=aq.URPE(), tokens=LONGEST, pattern=aq.Window(3)
    ),
    "strided heads": lambda: aq.nn.Attention(8, 2, pattern=aq.PerHead(*aq.Strided(4).split())),
    "Transformer": lambda: aq.nn.Transformer(
        aq.Design(LONGEST, patterns=aq.Window(4), position=aq.Absolute()), dim=8, depth=2, heads=2
    ),
}


def built(name: str) -> nn.Module:
    torch.manual_seed(0)
    module = MODULES[name]().eval()
    with torch.no_grad():
        for at, parameter in enumerate(module.parameters()):
            parameter.add_(0.3 * random(*parameter.shape, seed=at).float())
    return module


def sequence(n: int) -> torch.Tensor:
    return random(2, n, 8).float()


def exported(module: nn.Module) -> torch.export.ExportedProgram:
    tokens = torch.export.Dim("tokens", min=2, max=LONGEST)
    return torch.export.export(module, (sequence(65),), dynamic_shapes=({1: tokens},))


@pytest.mark.parametrize("name", MODULES)
def test_exported_is_eager(name: str) -> None:
    """Also against the formula; float32 sums of at most 300 terms."""
    module = built(name)
    program = exported(module)
    operators = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert not [one for one in operators if "anyseq" in one]
    run = program.module()
    for n in LENGTHS:
        with torch.no_grad():
            torch.testing.assert_close(run(sequence(n)), module(sequence(n)), rtol=0, atol=1e-4)


class Largest(TorchDispatchMode):
    """How many numbers the largest tensor holds that an operator gives."""

    size = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        sizes = [one.numel() for one in tree_leaves(found) if isinstance(one, torch.Tensor)]
        self.size = max([self.size, *sizes])
        return found


@pytest.mark.parametrize("name", ["window", "URPE, window", "Transformer"])
def test_windows_are_never_dense(name: str) -> None:
    """Two batch rows and heads in blocks of 32 queries, by 40 keys at most: less than N x N."""
    run, x = exported(built(name)).module(), sequence(LONGEST)
    with torch.no_grad(), Largest() as seen:
        run(x)
    assert 1000 < seen.size < LONGEST**2


def test_lengths_beyond_the_declared_range_are_refused() -> None:
    run = exported(built("window")).module()
    with pytest.raises((AssertionError, RuntimeError), match=r"tokens|300"):
        run(sequence(LONGEST + 1))


@pytest.mark.filterwarnings("ignore:.*LeafSpec.* is deprecated:FutureWarning")  # of torch.onnx
@pytest.mark.parametrize("name", ["dense", "URPE, window", "causal windows, grouped"])
def test_onnx_is_eager(name: str, tmp_path: Path) -> None:
    runtime: Any = import_module("onnxruntime")
    module, file = built(name), tmp_path / "module.onnx"
    tokens = torch.export.Dim("tokens", min=2, max=LONGEST)
    torch.onnx.export(
        module, (sequence(65),), file, dynamo=True, verbose=False,
        input_names=["x"], output_names=["y"], dynamic_shapes=({1: tokens},),
    )  # fmt: skip
    session = runtime.InferenceSession(file, providers=["CPUExecutionProvider"])
    for n in LENGTHS:
        (found,) = session.run(None, {"x": sequence(n).numpy()})
        with torch.no_grad():
            expected = module(sequence(n))
        torch.testing.assert_close(torch.from_numpy(found), expected, rtol=0, atol=1e-5)
