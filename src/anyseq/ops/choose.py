"""Which backend `auto` takes, and why.

The costs are measured by `anyseq bench attention`, forward and backward, and told in nanoseconds a
score (one head, D = 64). Only their ratios matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from anyseq.ops import block, flex, reference, sdpa, short, tiled
from anyseq.ops.call import Call, Term
from anyseq.ops.own_steps import any_learns
from anyseq.ops.tiles import covered_scores
from anyseq.patterns import Causal, Full
from anyseq.positions import Toeplitz

BACKENDS: Mapping[str, Any] = MappingProxyType(
    {
        "reference": reference,
        "short": short,
        "block": block,
        "tiled": tiled,
        "sdpa": sdpa,
        "flex": flex,
    }
)

_SDPA_MASKED, _TILES = 5.5, 6.5
_TILES_RUN = 300_000.0  # ns for a run of tiles of one head, however small
_FEW = 1 << 16  # scores of a head: too few for tiles
_KEPT = 1 << 24  # scores of the formula that may be kept for the backward pass
_STEP = 1 << 15  # scores from which on "short" is quicker than torch's kernels in training
_STEP_MOST = 1 << 18  # scores of a head up to which it is, where torch's kernels would not do
_STEP_KEPT = 1 << 22  # and of all heads: 16 MB in float32
_STEP_KEYS = 16  # and keys
_STEP_QUERIES = 16  # from which on it is quicker than operators without a backward pass


@dataclass(frozen=True)
class AttentionPlan:
    """What `attention` does with the same arguments.

    backend, reason: the one it takes, and why. scores: how many it computes; dense_scores: how many
    the formula has. refused: the backends that cannot do it, each with the reason.
    """

    backend: str
    reason: str
    scores: int
    dense_scores: int
    refused: Mapping[str, str]

    def __str__(self) -> str:
        share = self.scores / max(1, self.dense_scores)
        lines = [
            f"{self.backend}: {self.reason}",
            f"computes {self.scores:,} of {self.dense_scores:,} scores ({share:.1%})",
        ]
        lines += [f"not {name}: {reason}" for name, reason in self.refused.items()]
        return "\n".join(lines)


def refusals(call: Call) -> dict[str, str]:
    """The backends that cannot do it, each with the reason."""
    found = {name: backend.refusal(call) for name, backend in BACKENDS.items()}
    return {name: reason for name, reason in found.items() if reason is not None}


def choose(call: Call) -> tuple[str, str]:
    """The backend for `auto`, and the reason."""
    if torch.compiler.is_exporting():
        return "reference", "an exported graph holds the plain formula"
    if not call.plain_softmax:
        if call.scores <= _KEPT:
            return "reference", "a hook or another map than softmax: the formula"
        return "tiled", "a hook or another map than softmax: the formula, some rows at a time"
    only_tiles = call.gain is not None or call.return_lse
    if call.q.shape[2] * call.k.shape[2] <= _FEW:
        if short.refusal(call) is None and _pays_in_one_step(call):
            return "short", "short, for training or with a gain: all in one step"
        if only_tiles and call.scores <= _KEPT:
            return "reference", "short, with a gain or the log-sum-exp: the formula"
        if not only_tiles:
            return "sdpa", "short: dense is as quick"
    if call.q.device.type != "cpu" and flex.refusal(call) is None and _masked_or_gained(call):
        return "flex", "a pattern or a gain on an accelerator"
    dense = "tiled" if only_tiles else "sdpa"
    if (
        call.mask is not None
        or call.mask_mod is not None
        or isinstance(call.pattern, Full | Causal | None)
    ):
        if (
            short.refusal(call) is None
            and call.q.shape[2] * call.k.shape[2] <= _STEP_MOST
            and call.scores <= _STEP_KEPT
            and _beyond_torch(call)
        ):
            return "short", "dense, with a gain or a learned bias, and not long: all in one step"
        return dense, "a dense mask, or none" + ", with a gain or the log-sum-exp" * only_tiles
    assert call.pattern is not None
    if not call.pattern.lasting:
        return dense, "a function, whose blocks may be others at every call"
    if torch.compiler.is_compiling():
        return "block", "a pattern in a compiled graph, which is to serve many lengths"
    scores, runs = covered_scores(call)
    sparse_time = scores * _TILES + runs * _TILES_RUN
    dense_time = call.scores * (_TILES if only_tiles else _SDPA_MASKED)
    times = f"about {sparse_time / 1e6:.3g} ms in tiles, {dense_time / 1e6:.3g} ms dense"
    return ("block" if sparse_time < dense_time else dense), times


def shared_by_layers(table: Toeplitz, batch: int, queries: int, first: int, dense: bool) -> Term:
    """A table for several calls with these queries and all keys up to them: dense, once, if they
    are so short that "auto" would make it dense in each of them.

    dense: whether all of them are calls, with dense masks and without dropout, that may take
    "short"."""
    keys = first + queries
    if torch.compiler.is_compiling():
        return table
    scores = queries * keys
    in_steps = scores <= _STEP_MOST and batch * len(table.coefficients) * scores <= _STEP_KEPT
    if scores > _FEW and not (dense and in_steps):
        return table
    return table.dense(queries, keys, first)[None]


def _pays_in_one_step(call: Call) -> bool:
    """Torch's kernels are quicker without a backward pass, or with few scores."""
    if _beyond_torch(call):
        return True
    learns = torch.is_grad_enabled() and any_learns(call.q, call.k, call.v)
    return learns and call.scores >= _STEP and call.k.shape[2] >= _STEP_KEYS


def _beyond_torch(call: Call) -> bool:
    """Torch's kernels have no gain, and no learned bias: there "short" is quicker than operators,
    unless a few queries, which nobody differentiates, ask for keys that are more with every
    call."""
    bias, gain = (
        term.coefficients if isinstance(term, Toeplitz) else term for term in (call.bias, call.gain)
    )
    if torch.is_grad_enabled() and any_learns(call.q, call.k, call.v, bias, gain):
        return gain is not None or any_learns(bias)
    return gain is not None and call.q.shape[2] >= _STEP_QUERIES


def _masked_or_gained(call: Call) -> bool:
    return call.pattern is not None or call.mask_mod is not None or call.gain is not None
