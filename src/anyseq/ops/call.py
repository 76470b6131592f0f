"""One validated call of the operator: what every backend receives."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from types import NoneType
from typing import NamedTuple

import torch

from anyseq.patterns import Causal, Full, MaskMod, Pattern, evaluated
from anyseq.positions import GridToeplitz, Toeplitz
from anyseq.probability import ProbMap, Softmax

ScoreMod = Callable[
    [torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor
]
"""(score or weight, batch, head, query index, key index) -> score or weight."""

Term = torch.Tensor | Toeplitz | GridToeplitz


def may_look(tensor: torch.Tensor) -> bool:
    """Whether the computation may depend on values in a tensor: an accelerator would have to wait
    for them, and a graph or torch.func does not have them."""
    if tensor.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    return not torch._C._are_functorch_transforms_active()  # there is no public question


class Call(NamedTuple):
    """q (B, H, N, D), k (B, G, M, D), v (B, G, M, E), G a divisor of H, and what acts on scores.

    Which tokens each token may attend to: pattern; mask, bool with four axes of full size or 1;
    mask_mod, a user-defined function; key_mask, document_ids: (B, M). Tensors as bias and gain have
    four such axes, too.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    pattern: Pattern | None
    mask: torch.Tensor | None
    mask_mod: MaskMod | None
    key_mask: torch.Tensor | None
    document_ids: torch.Tensor | None
    bias: Term | None
    gain: Term | None
    softcap: float | None
    score_mod: ScoreMod | None
    weight_mod: ScoreMod | None
    prob_map: ProbMap
    scale: float
    is_causal: bool
    dropout_p: float
    q_offset: int
    return_lse: bool

    @property
    def groups(self) -> int:
        """Heads of q for each head of k and v."""
        return self.q.shape[1] // self.k.shape[1]

    @property
    def span(self) -> int:
        """The length of the sequence that holds all queries and keys."""
        return max(self.k.shape[2], self.q_offset + self.q.shape[2])

    @property
    def scores(self) -> int:
        """The number of scores of the dense formula."""
        return self.q.shape[0] * self.q.shape[1] * self.q.shape[2] * self.k.shape[2]

    @property
    def plain_softmax(self) -> bool:
        """Whether the formula has no hooks and no other map: what the fast backends compute."""
        return self.score_mod is None and self.weight_mod is None and type(self.prob_map) is Softmax

    def indices(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """The four indices of a hook, shaped to broadcast over (B, H, N, M)."""
        device = self.q.device
        return (
            torch.arange(self.q.shape[0], device=device)[:, None, None, None],
            torch.arange(self.q.shape[1], device=device)[None, :, None, None],
            torch.arange(self.q_offset, self.q_offset + self.q.shape[2], device=device)[:, None],
            torch.arange(self.k.shape[2], device=device)[None, :],
        )

    def allowed(self) -> torch.Tensor | None:
        """Which keys each query may attend to, bool, broadcastable to (B, H, N, M); None if all."""
        said = [] if self.mask is None else [self.mask]
        if self.key_mask is not None:
            said.append(self.key_mask[:, None, None, :])
        if (ids := self.document_ids) is not None:
            own = ids[:, self.q_offset : self.q_offset + self.q.shape[2]]
            said.append(own[:, None, :, None] == ids[:, None, None, :])
        pattern = None if isinstance(self.pattern, Full) else self.pattern
        if pattern is not None or self.mask_mod is not None or self.is_causal:
            b, h, i, j = self.indices()
            if pattern is not None:
                said.append(pattern.at(self.span)(b, h, i, j))
            if self.mask_mod is not None:
                said.append(evaluated(self.mask_mod, b, h, i, j))
            if self.is_causal:
                said.append(j <= i)
        return reduce(torch.logical_and, said) if said else None

    def also(self, mask: torch.Tensor) -> Call:
        """The same where a mask, bool with four axes of full size or 1, must allow a pair, too."""
        return self._replace(mask=mask if self.mask is None else self.mask & mask)

    @property
    def is_simple(self) -> bool:
        """Whether the pattern hides nothing, or the future. (isinstance is slow on a pattern's
        class, and this is part of every call.)"""
        return type(self.pattern) in (NoneType, Full, Causal)

    @property
    def masked_apart(self) -> bool:
        """Whether more than a pattern restricts which tokens each token may attend to."""
        if self.mask is not None or self.mask_mod is not None:
            return True
        return self.key_mask is not None or self.document_ids is not None

    def dense(self, term: Term) -> torch.Tensor:
        """A bias or gain as a tensor that broadcasts to (B, H, N, M)."""
        if isinstance(term, torch.Tensor):
            return term
        return term.dense(self.q.shape[2], self.k.shape[2], self.q_offset)
