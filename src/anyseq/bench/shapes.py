"""Everyday shapes, quiet and beside other work: batches of many heads, and one token at a time.

Each is measured beside dense SDPA without a mask in the same rounds. `worth` is the speed-up as a
share of what the pattern leaves out: (time of dense / time of anyseq) / (all pairs / pairs in
tiles), or allowed pairs for windows, whose tiles are to waste little.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from anyseq.base import generator, medians
from anyseq.bench.busy import busy
from anyseq.ops import attention, attention_plan
from anyseq.patterns import BigBird, Causal, Pattern, Star, Window

ROUNDS = 5
SIZE = 64
# Beside others a call ends when the last of its threads has had its turn. Turns of the system are
# about as long as a short call, whose times then differ threefold: their median takes many rounds.
_CROWDED_SECONDS = 1.0

Shape = tuple[int, int, int, int]
"""Batch rows, heads, heads of keys and values, tokens."""

SHAPES: tuple[Shape, ...] = (
    (8, 12, 12, 1024), (32, 8, 8, 512), (4, 12, 12, 2048), (2, 32, 8, 4096), (16, 12, 12, 197),
)  # fmt: skip


def patterns(n: int) -> list[Pattern]:
    windows = (Window(n // 16), Window(n // 8))
    return [*windows, *(window & Causal() for window in windows), Star(n // 16), BigBird(32)]


def everyday(shape: Shape, beside: int) -> list[dict[str, Any]]:
    """All patterns at a shape; of the first one also the times beside so many busy processes."""
    *_, n = shape
    chosen = patterns(n)
    sides = _sides(shape)
    works = {str(pattern): partial(_train, shape, pattern, *sides) for pattern in chosen}
    works["dense"] = partial(_train, shape, None, *sides)
    times = medians(works, ROUNDS)
    crowded: dict[str, float] = {}
    if beside:
        with busy(beside):
            first = str(chosen[0])
            rounds = max(ROUNDS, round(_CROWDED_SECONDS / times[first]))
            crowded = medians({name: works[name] for name in (first, "dense")}, rounds)
    rows = []
    for pattern in chosen:
        name = str(pattern)
        tiles, allowed = _pairs(shape, pattern)
        counted = allowed if isinstance(chosen[0], Window) and "Window" in name else tiles
        faster = times["dense"] / times[name]
        rows.append(
            {
                "shape": list(shape),
                "pattern": name,
                "seconds": times[name],
                "dense_seconds": times["dense"],
                "faster": faster,
                "worth": faster * counted,
                "in_tiles": tiles,
                "beside": beside,
                "beside_seconds": crowded.get(name),
                "beside_dense_seconds": crowded.get("dense") if name in crowded else None,
            }
        )
    return rows


def decoding(keys: int = 8192) -> list[dict[str, Any]]:
    """One token after a cache, beside SDPA over the keys that it attends to."""
    rows = []
    rng = generator(0)
    for pattern, visible in ((Causal(), keys), (Window(1023) & Causal(), 1024)):
        q = torch.randn(1, 32, 1, SIZE, generator=rng)
        k, v = (torch.randn(1, 8, keys, SIZE, generator=rng) for _ in range(2))
        seen = (k[:, :, -visible:], v[:, :, -visible:])
        works = {
            "anyseq": partial(
                attention, q, k, v, pattern=pattern, q_offset=keys - 1, enable_gqa=True
            ),
            "SDPA": partial(scaled_dot_product_attention, q, *seen, enable_gqa=True),
        }
        with torch.no_grad():
            times = medians(works, 200)
        rows.append({"pattern": str(pattern), "keys": keys, "visible": visible, "seconds": times})
    return rows


def _sides(shape: Shape) -> list[torch.Tensor]:
    """q, k and v as projections leave them, tokens before heads in memory, and a gradient of the
    output."""
    batch, heads, groups, n = shape
    rng = generator(0)
    q, k, v, dout = (
        torch.randn(batch, n, count, SIZE, generator=rng).transpose(1, 2)
        for count in (heads, groups, groups, heads)
    )
    return [*(side.requires_grad_() for side in (q, k, v)), dout]


def _train(
    shape: Shape,
    pattern: Pattern | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dout: torch.Tensor,
) -> None:
    grouped = shape[1] != shape[2]
    if pattern is None:
        out = scaled_dot_product_attention(q, k, v, enable_gqa=grouped)
    else:
        out = attention(q, k, v, pattern=pattern, enable_gqa=grouped)
    torch.autograd.grad(out, (q, k, v), dout)


def _pairs(shape: Shape, pattern: Pattern) -> tuple[float, float]:
    """Shares of all pairs: those in tiles, and those allowed."""
    _, heads, groups, n = shape
    q, k = torch.empty(1, heads, n, 1), torch.empty(1, groups, n, 1)
    plan = attention_plan(q, k, k, pattern=pattern, enable_gqa=heads != groups, backend="tiles")
    return plan.scores / plan.dense_scores, pattern.edges(n).shape[1] / n**2
