"""Constants of f that are given per box, so that a grid can be fine only where f needs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from anyseq.errors import InvalidArgument

BoxBound = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""(lower, upper), both (boxes, tokens, features) -> (boxes,), all float64."""

ROOM = 2.0**500  # so that constants can be multiplied


@dataclass(frozen=True)
class Local:
    """A value of `lipschitz=` or `curvature=` where one number for the whole cube is too coarse.

    bound: gets the ends of boxes {lower <= x <= upper} inside [0, 1]^(tokens x features), as two
        tensors (boxes, tokens, features), and returns for each a constant that holds within it,
        (boxes,) in float64. A box may be as large as the cube; a bound for a box is one for every
        box inside, so it need not be the best.
    """

    bound: BoxBound

    def __post_init__(self) -> None:
        if not callable(self.bound):
            raise InvalidArgument(
                f"Local({self.bound!r}): expected a function of the lower and upper ends of boxes"
            )

    def on(self, name: str, lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
        """The constants of boxes, checked; `name` is the argument that holds this."""
        came = f"{name}: Local was given boxes as two tensors of shape {tuple(lower.shape)}"
        try:
            with torch.no_grad():
                found = self.bound(lower.clone(), upper.clone())
        except Exception as problem:
            raise InvalidArgument(
                f"{came}, and raised {type(problem).__name__}: {problem}"
            ) from problem
        if not isinstance(found, torch.Tensor) or found.dtype != torch.float64:
            tensor = isinstance(found, torch.Tensor)
            kind = f"a {found.dtype} tensor" if tensor else type(found).__name__
            raise InvalidArgument(f"{came}, and returned {kind}; expected a float64 tensor")
        if tuple(found.shape) != (len(lower),):
            raise InvalidArgument(
                f"{came}, and returned shape {tuple(found.shape)}; expected ({len(lower)},)"
            )
        bad = ~((found >= 0) & (found <= ROOM))
        if bad.any():
            at = int(bad.nonzero()[0])
            raise InvalidArgument(
                f"{name}: Local is {float(found[at])!r} on the box from {lower[at].tolist()} to "
                f"{upper[at].tolist()}; expected a number from 0 to 2^500"
            )
        return found.detach()

    def everywhere(self, name: str, tokens: int, features: int) -> float:
        """The constant of the whole cube."""
        lower = torch.zeros(1, tokens, features, dtype=torch.float64)
        return float(self.on(name, lower, lower + 1)[0])
