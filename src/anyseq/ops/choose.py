"""Which backend `auto` chooses, and why.

The costs are those of a training step, in nanoseconds, with heads of size 64 on two cores, by
`anyseq bench attention`. Only their ratios matter.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import torch

from anyseq.base import one_of
from anyseq.ops import flex, in_tiles, native, reference, sdpa, tiles
from anyseq.ops.call import Call
from anyseq.ops.layout import Sizes, cover
from anyseq.ops.operator import combined, key_of
from anyseq.patterns import Causal, Full
from anyseq.positions import GridToeplitz, Toeplitz


class Backend(NamedTuple):
    """refusal: why it cannot do a call, or None. attention: (out, lse or None) of a call."""

    refusal: Callable[[Call], str | None]
    attention: Callable[[Call], tuple[torch.Tensor, torch.Tensor | None]]


BACKENDS: Mapping[str, Backend] = MappingProxyType(
    {
        "reference": Backend(reference.refusal, reference.attention),
        "native": Backend(in_tiles.native_refusal, in_tiles.native_attention),
        "tiles": Backend(in_tiles.tiles_refusal, in_tiles.tiles_attention),
        "sdpa": Backend(sdpa.refusal, sdpa.attention),
        "flex": Backend(flex.refusal, flex.attention),
    }
)

_OLD = {"block": "tiles", "tiled": "tiles", "short": "auto"}


class _Cost(NamedTuple):
    """Of a call, however small; of each head of each batch row; of each score."""

    call: float
    head: float
    score: float

    def of(self, call: Call, scores: int) -> float:
        return self.call + self.head * call.q.shape[0] * call.q.shape[1] + self.score * scores


_SDPA = _Cost(150e3, 3e3, 6.5)
_SDPA_LEARNED_BIAS = _Cost(400e3, 3e3, 9.5)  # which torch computes by operators
_FORMULA = _Cost(350e3, 3e3, 11.0)
_NATIVE = _Cost(350e3, 6e3, 6.6)
_TILES = _Cost(1000e3, 20e3, 20.0)
_KEPT = 1 << 24  # scores of the formula that may be kept for the backward pass


def backend_named(name: object) -> str:
    """The name, if there is such a backend; an old name gives a warning and is replaced."""
    if isinstance(name, str) and name in _OLD:
        warnings.warn(
            f"backend={name!r} is now {_OLD[name]!r}, and will be an error in anyseq 0.2",
            DeprecationWarning,
            stacklevel=3,
        )
        return _OLD[name]
    return one_of("backend", name, ("auto", *BACKENDS))


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
        return "tiles", "a hook or another map than softmax: the formula, some rows at a time"
    dense = "reference" if sdpa.refusal(call) else "sdpa"
    if (reason := in_tiles.operator_refusal()) is not None:
        return dense, reason
    if call.q.device.type != "cpu" and flex.refusal(call) is None and _masked_or_gained(call):
        return "flex", "a pattern or a gain on an accelerator"
    tiled, cost = "native", _NATIVE
    if in_tiles.native_refusal(call) is not None:
        tiled, cost = "tiles", _TILES
    simple = call.is_simple
    if torch.compiler.is_compiling():  # the graph is to serve many lengths
        if simple and dense == "sdpa":
            return dense, "a dense mask, or none"
        return tiled, "a pattern or a gain in a compiled graph"
    if dense == "sdpa" and simple and not call.masked_apart and call.bias is None:
        return dense, "nothing is masked, or only the future: torch's own kernel"
    if call.pattern is not None and not call.pattern.lasting and dense == "sdpa":
        return dense, "a function, whose blocks may change at every call"
    dense_time = _dense_time(call, dense)
    if dense_time < cost.of(call, 0):
        return dense, "short: dense is as quick"
    tiled_time = cost.of(call, covered_scores(call))
    times = f"about {tiled_time / 1e6:.3g} ms in tiles, {dense_time / 1e6:.3g} ms dense"
    return (tiled if tiled_time < dense_time else dense), times


def covered_scores(call: Call) -> int:
    """Scores in the tiles of the pattern, over all batch rows and heads."""
    queries, keys = call.q.shape[2], call.k.shape[2]
    sizes = Sizes(queries, keys, call.q_offset)
    pattern = combined("" if call.pattern is None else key_of(call.pattern), call.is_causal)
    if pattern in (Full(), Causal()):  # nothing to look for, however long it is
        share = 2 if pattern == Causal() and queries == keys else 1
        return call.scores // share
    grain = tiles.GRAIN if in_tiles.native_refusal(call) else native.GRAIN
    areas = [cover(part, sizes, grain).area for part in pattern.heads()]
    return call.q.shape[0] * sum(areas[h % len(areas)] for h in range(call.q.shape[1]))


def _dense_time(call: Call, dense: str) -> float:
    """The cost of torch's kernel, or of the formula, which keeps all scores."""
    if dense == "reference":
        return _FORMULA.of(call, call.scores) if call.scores <= _KEPT else float("inf")
    bias = call.bias
    if isinstance(bias, Toeplitz | GridToeplitz):
        bias = bias.coefficients
    learned = bias is not None and bias.requires_grad and torch.is_grad_enabled()
    return (_SDPA_LEARNED_BIAS if learned else _SDPA).of(call, call.scores)


def _masked_or_gained(call: Call) -> bool:
    return call.pattern is not None or call.mask_mod is not None or call.gain is not None
