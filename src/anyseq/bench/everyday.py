"""`anyseq bench everyday`: half precision, padding, images, compiling and exporting.

What is expected of an attention operator besides its speed on long sequences, each next to its
equivalent in torch alone. Heads of size 64; times are medians of alternating rounds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from anyseq import nn
from anyseq.base import Progress, generator, medians, silent
from anyseq.design import Design
from anyseq.ops import attention
from anyseq.ops.flex import has_compiler
from anyseq.patterns import Neighbourhood, Pattern, ShiftedWindows, Window
from anyseq.positions import URPE, NoPosition, Position, Rotary

ROUNDS = 7
SIZE = 64
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
COMPILED: dict[str, tuple[Pattern | None, Position]] = {
    "dense": (None, NoPosition()),
    "Window(64)": (Window(64), NoPosition()),
    "Rotary": (None, Rotary()),
    "URPE": (None, URPE()),
    "torch's encoder layers": (None, NoPosition()),
}

Shape = tuple[int, int, int]
"""Batch rows, heads, tokens."""


def bench_everyday(progress: Progress = silent, *, quick: bool = False) -> dict[str, Any]:
    """quick: short sequences, which measure nothing."""
    long: tuple[Shape, ...] = ((1, 2, 64),) if quick else ((1, 4, 8192), (8, 12, 1024))
    short: tuple[Shape, ...] = (
        ((2, 2, 32),) if quick else ((32, 8, 64), (16, 12, 128), (8, 12, 256), (8, 12, 512))
    )
    stages: dict[str, Callable[[], Any]] = {
        "halves": lambda: [row for shape in long for row in _halves(shape)],
        "padding": lambda: [_padding(shape) for shape in short],
        "images": lambda: _images(16 if quick else 64),
        "exported": lambda: _exported(64 if quick else 4096),
        "compiled": lambda: [_in_a_process(name, 1 if quick else 4) for name in _compilable()],
    }
    found: dict[str, Any] = {"threads": torch.get_num_threads(), "torch": torch.__version__}
    for done, (name, stage) in enumerate(stages.items()):
        progress("bench everyday", done, len(stages))
        found[name] = stage()
    progress("bench everyday", len(stages), len(stages))
    return found


def _halves(shape: Shape) -> list[dict[str, Any]]:
    """A training step in every type, of a window and of SDPA without a mask."""
    pattern, rows = Window(shape[2] // 16 if shape[2] < 2048 else 128), []
    ours = {
        str(dtype): _training(partial(attention, pattern=pattern), shape, dtype) for dtype in DTYPES
    }
    torchs = {str(dtype): _training(scaled_dot_product_attention, shape, dtype) for dtype in DTYPES}
    times, dense = medians(ours, ROUNDS), medians(torchs, ROUNDS)
    for name in ours:
        rows.append(
            {
                "shape": list(shape),
                "pattern": str(pattern),
                "dtype": name.removeprefix("torch."),
                "seconds": times[name],
                "dense_seconds": dense[name],
                "to_float32": times[name] / times["torch.float32"],
                "dense_to_float32": dense[name] / dense["torch.float32"],
            }
        )
    return rows


def _padding(shape: Shape) -> dict[str, Any]:
    """Sequences from half to all of the length, beside SDPA with the same mask of keys."""
    batch, _, tokens = shape
    lengths = torch.randint(tokens // 2, tokens + 1, (batch,), generator=generator(1))
    real = torch.arange(tokens) < lengths[:, None]
    steps = {
        "anyseq": _training(partial(attention, key_mask=real), shape),
        "SDPA": _training(
            partial(scaled_dot_product_attention, attn_mask=real[:, None, None, :]), shape
        ),
    }
    forward = {
        "anyseq": _forward(partial(attention, key_mask=real), shape),
        "SDPA": _forward(
            partial(scaled_dot_product_attention, attn_mask=real[:, None, None, :]), shape
        ),
    }
    return {
        "shape": list(shape),
        "seconds": medians(steps, 5 * ROUNDS),
        "forward_seconds": medians(forward, 5 * ROUNDS),
    }


def _images(side: int) -> list[dict[str, Any]]:
    """A training step over side x side pixels, beside SDPA with the mask of the pattern."""
    grid, shape = (side, side), (1, 4, side * side)
    rows = []
    for pattern in (Neighbourhood(grid, 3), ShiftedWindows(grid, (8, 8), (4, 4))):
        mask = pattern.mask(side * side)
        steps = {
            "anyseq": _training(partial(attention, pattern=pattern), shape),
            "SDPA, bool mask": _training(
                partial(scaled_dot_product_attention, attn_mask=mask), shape
            ),
        }
        rows.append(
            {"pattern": str(pattern), "shape": list(shape), "seconds": medians(steps, ROUNDS)}
        )
    return rows


def _exported(tokens: int) -> dict[str, Any]:
    """A forward pass of a windowed layer, eager and as torch.export writes it, and of a layer
    without a window, exported."""
    x = torch.randn(1, tokens, 256, generator=generator(0))
    layers = {
        "window": nn.Attention(256, 4, pattern=Window(128)).eval(),
        "dense": nn.Attention(256, 4).eval(),
    }
    graphs = {name: torch.export.export(layer, (x,)).module() for name, layer in layers.items()}
    works = {
        "eager": partial(layers["window"], x),
        "exported": partial(graphs["window"], x),
        "dense, exported": partial(graphs["dense"], x),
    }
    with torch.no_grad():
        return {"tokens": tokens, "pattern": "Window(128)", "seconds": medians(works, ROUNDS)}


def _compilable() -> Iterable[str]:
    return COMPILED if has_compiler() else ()


def _in_a_process(name: str, layers: int) -> dict[str, Any]:
    """Without anything kept from an earlier compilation."""
    command = [sys.executable, "-m", "anyseq.bench.everyday", name, str(layers)]
    with TemporaryDirectory() as empty:
        environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": empty}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def first_step(name: str, layers: int, lengths: tuple[int, ...] = (128, 96, 57)) -> dict[str, Any]:
    """Seconds of the first training step of compiled layers, in which they are compiled, and the
    graphs after steps at other lengths."""
    from torch._dynamo.testing import CompileCounterWithBackend

    model = _layers(name, layers)
    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    taken = []
    for tokens in lengths:
        x = torch.randn(2, tokens, 256)
        torch._dynamo.mark_dynamic(x, 1)
        began = perf_counter()
        compiled(x).sum().backward()
        taken.append(perf_counter() - began)
    return {"what": name, "layers": layers, "seconds": taken[0], "graphs": counter.frame_count}


def _layers(name: str, layers: int) -> torch.nn.Module:
    if name == "torch's encoder layers":
        layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, norm_first=True)
        return torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    pattern, position = COMPILED[name]
    design = Design(128, pattern, position)
    return nn.Transformer(design, dim=256, depth=layers, heads=4)


def _sides(shape: Shape, dtype: torch.dtype) -> list[Tensor]:
    """q, k and v as projections leave them, tokens before heads in memory."""
    batch, heads, tokens = shape
    rng = generator(0)
    return [
        torch.randn(batch, tokens, heads, SIZE, generator=rng).to(dtype).transpose(1, 2)
        for _ in range(3)
    ]


def _training(
    attend: Callable[..., Tensor], shape: Shape, dtype: torch.dtype = torch.float32
) -> Callable[[], None]:
    sides = [side.requires_grad_() for side in _sides(shape, dtype)]

    def step() -> None:
        out = attend(*sides)
        torch.autograd.grad(out, sides, torch.ones_like(out))

    return step


def _forward(attend: Callable[..., Tensor], shape: Shape) -> Callable[[], Tensor]:
    sides = _sides(shape, torch.float32)

    def forward() -> Tensor:
        with torch.no_grad():
            return attend(*sides)

    return forward


if __name__ == "__main__":
    sys.stdout.write(json.dumps(first_step(sys.argv[1], int(sys.argv[2]))))
