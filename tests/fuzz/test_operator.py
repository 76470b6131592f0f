"""Random calls of `anyseq.attention` against a formula of their own: loops over rows, in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.ops import BACKENDS

CALLS = 60
MAPS = ("softmax", "softmax", "softmax", "hardmax", "sparsemax", "entmax15", aq.TopK(2))
PATTERNS = (
    None, aq.Window(2), aq.Causal(), aq.Strided(3), aq.Fixed(4), aq.Star(1), aq.LogSparse(),
    aq.Dilated(2, 3), aq.Longformer(1), aq.Random(2, 3), aq.Window(1) | aq.Global((0, -1)),
    ~aq.Window(2), aq.PerHead(aq.Window(1), aq.Causal()), aq.Blocks(3) & aq.Causal(),
)  # fmt: skip


@pytest.mark.parametrize("part", range(4))
def test_calls_are_the_formula(part: int, soak: int) -> None:
    done = 0
    for number in range(CALLS // 4 * soak):
        rng = np.random.default_rng([part, number])
        (q, k, v), arguments = call(rng)
        backend = str(rng.choice(["auto", "auto", *BACKENDS]))
        try:
            out, lse = aq.attention(
                *map(torch.from_numpy, (q, k, v)), **arguments, backend=backend, return_lse=True
            )
        except InvalidArgument:
            if backend == "auto":  # which takes every call
                raise
            continue
        done += 1
        wanted, wanted_lse = formula(q, k, v, **arguments)
        scale = 1 + np.abs(wanted).max(initial=0.0)
        assert np.abs(out.numpy() - wanted).max(initial=0.0) <= 1e-9 * scale, (part, number)
        both = np.where(np.isinf(wanted_lse), wanted_lse == lse.numpy(), True)
        near = np.isclose(np.nan_to_num(lse.numpy()), np.nan_to_num(wanted_lse), atol=1e-9)
        assert both.all(), (part, number)
        assert near.all(), (part, number)
    assert done > CALLS // 4 * soak / 3


def call(rng: np.random.Generator) -> tuple[tuple[np.ndarray, ...], dict[str, Any]]:
    batch, size, out = rng.integers(1, 3), rng.integers(1, 5), rng.integers(1, 5)
    heads, groups = ((1, 1), (2, 1), (4, 2), (3, 3))[rng.integers(4)]
    n, m, offset = rng.integers(0, 70), rng.integers(0, 70), 0
    if rng.random() < 0.5:
        m = n
    if rng.random() < 0.3:
        offset = int(rng.integers(0, 9))
    q = rng.standard_normal((batch, heads, n, size)) * rng.choice([1e-3, 1.0, 5.0])
    k, v = (rng.standard_normal((batch, groups, m, width)) for width in (size, out))
    span = max(int(m), offset + int(n), 1)
    arguments: dict[str, Any] = {
        "enable_gqa": bool(heads != groups),
        "is_causal": bool(rng.random() < 0.3),
        "q_offset": offset,
        "prob_map": MAPS[rng.integers(len(MAPS))],
        "pattern": PATTERNS[rng.integers(len(PATTERNS))],
    }
    if rng.random() < 0.2:
        arguments["scale"] = float(rng.choice([0.0, -1.0, 2.0]))
    if rng.random() < 0.2:
        arguments["pattern"] = torch.from_numpy(rng.random((n, m)) < 0.5)
    if rng.random() < 0.3:
        arguments["key_mask"] = torch.from_numpy(rng.random((batch, m)) < 0.7)
    for name in ("bias", "gain"):
        if rng.random() < 0.3:
            arguments[name] = torch.from_numpy(rng.standard_normal((heads, n, m)))
        elif rng.random() < 0.3:
            table = rng.standard_normal((heads, 2 * span - 1))
            arguments[name] = aq.Toeplitz(torch.from_numpy(table))
    return (q, k, v), arguments


def formula(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    pattern: Any,
    prob_map: Any,
    enable_gqa: bool,
    is_causal: bool,
    q_offset: int,
    scale: float | None = None,
    key_mask: torch.Tensor | None = None,
    bias: Any = None,
    gain: Any = None,
) -> tuple[np.ndarray, np.ndarray]:
    batch, heads, n, size = q.shape
    m = k.shape[2]
    out, lse = np.zeros((batch, heads, n, v.shape[3])), np.full((batch, heads, n), -np.inf)
    scale = size**-0.5 if scale is None else scale
    for b, h, row in np.ndindex(batch, heads, n):
        side, i = h * k.shape[1] // heads, row + q_offset
        seen = np.ones(m, dtype=bool)
        if isinstance(pattern, torch.Tensor):
            seen &= pattern[row].numpy()
        elif pattern is not None:
            head = pattern.heads()[h % len(pattern.heads())]
            seen &= head.mask(max(m, q_offset + n))[i, :m].numpy()
        if key_mask is not None:
            seen &= key_mask[b].numpy()
        if is_causal:
            seen &= np.arange(m) <= i
        (keys,) = np.nonzero(seen)
        if not len(keys):
            continue
        score = k[b, side, keys] @ q[b, h, row] * scale + term(bias, h, row, i, keys, 0.0)
        lse[b, h, row] = np.log(np.exp(score - score.max()).sum()) + score.max()
        weight = weights(score, prob_map) * term(gain, h, row, i, keys, 1.0)
        out[b, h, row] = weight @ v[b, side, keys]
    return out, lse


def term(given: Any, h: int, row: int, i: int, keys: np.ndarray, nothing: float) -> Any:
    if given is None:
        return nothing
    if isinstance(given, aq.Toeplitz):
        table = given.coefficients.numpy()
        return table[h % len(table), i - keys + table.shape[1] // 2]
    return given[h, row].numpy()[keys]


def weights(score: np.ndarray, prob_map: Any) -> np.ndarray:
    """Each map by its definition: sparse ones by bisection of the threshold."""
    if isinstance(prob_map, aq.TopK):
        least = np.sort(score)[-min(prob_map.k, len(score))]
        power = np.where(score >= least, np.exp(score - score.max()), 0.0)
        return np.asarray(power / power.sum())
    if prob_map == "hardmax":
        best = score == score.max()
        return np.asarray(best / best.sum())
    if prob_map == "softmax":
        power = np.exp(score - score.max())
        return np.asarray(power / power.sum())
    exponent, factor = (1, 1.0) if prob_map == "sparsemax" else (2, 0.5)
    low, high = factor * score.max() - 1, factor * score.max()
    for _ in range(200):
        middle = (low + high) / 2
        total = (np.maximum(factor * score - middle, 0.0) ** exponent).sum()
        low, high = (middle, high) if total > 1 else (low, middle)
    found = np.maximum(factor * score - low, 0.0) ** exponent
    return np.asarray(found / found.sum())
