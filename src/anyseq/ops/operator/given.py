"""The arguments of the operators: what torch may see in a graph."""

from __future__ import annotations

from typing import NamedTuple, get_type_hints

import torch
from torch import Tensor

from anyseq.ops.job import Job
from anyseq.ops.operator.keys import combined

_TYPES = {
    Tensor: "Tensor", Tensor | None: "Tensor?", str: "str", bool: "bool", int: "SymInt",
    float: "float",
}  # fmt: skip


class Given(NamedTuple):
    """q (B, H, N, D), k (B, G, M, D), v (B, G, M, E), with G a divisor of H.

    mask: bool, four axes, each of full size or 1. key_mask: (B, M) bool. True = may attend.
    documents: (B, M) int64.
    bias, gain: (H or 1, 2r+1) coefficients of a Toeplitz matrix, or four axes of full size or 1.
    places: (tokens,) int64, if the bias is Toeplitz in places[i] - places[j] instead of i - j.
    seed: () int64, for dropout.
    pattern: its key (see `keys`), or "" for none; is_causal: and j <= i.
    softcap: 0 for none.
    native: by the native kernel, which has to be there, on a CPU; else by torch's operators.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    key_mask: Tensor | None
    documents: Tensor | None
    bias: Tensor | None
    gain: Tensor | None
    places: Tensor | None
    seed: Tensor | None
    pattern: str
    is_causal: bool
    scale: float
    softcap: float
    dropout_p: float
    q_offset: int
    native: bool

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the computation: half precision is computed in float32."""
        return torch.float64 if self.q.dtype == torch.float64 else torch.float32

    def side(self, given: Tensor) -> Tensor:
        """q, k, v, out or its gradient, as the tiles are computed from them: the native kernel
        reads and writes halves itself."""
        return given if self.native else given.to(self.dtype)

    def job(self) -> Job:
        bias, gain = (
            None if term is None else term.to(self.dtype) for term in (self.bias, self.gain)
        )
        return Job(
            self.side(self.q),
            self.side(self.k),
            self.side(self.v),
            self.mask,
            self.key_mask,
            self.documents,
            bias,
            gain,
            self.places,
            0 if self.seed is None else int(self.seed),
            combined(self.pattern, self.is_causal),
            self.scale,
            self.softcap,
            self.dropout_p,
            self.q_offset,
        )


_KINDS = {name: _TYPES[kind] for name, kind in get_type_hints(Given).items()}

TENSORS = sum(kind.startswith("Tensor") for kind in _KINDS.values())
"""So many of the arguments, the first ones, are tensors or None."""

SCHEMA = ", ".join(f"{kind} {name}" for name, kind in _KINDS.items())
"""The arguments as torch writes them."""
