"""What a certificate claims, in plain numbers: all that the independent checker needs besides
tensors."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Claim:
    """|f - T| <= upper in the norm, for every f that varies as stated, |f| <= bound, and whose
    values are the table's.

    positions: whether tokens are told apart by their positions, in whatever way.
    dense: full attention by softmax, nothing inside it but scores, and nothing but the tokens to
        attend to.
    kind: "all" f, or f that are "causal" or "equivariant", see `anyseq.construct.request.kind`.
    lipschitz, per_feature, curvature: as in `anyseq.approximate`; None where not given. Where they
        were given per box these are those of the whole cube; the table of an adaptive grid holds
        those of its boxes.
    modulus: pairs (h, ω(h)) wherever the bound uses ω.
    terms: the parts of the error (name, part of the domain, value).
    exceptional: the measure of the inputs without a pointwise bound.
    """

    method: str
    tokens: int
    features: int
    out_features: int
    steps: int
    positions: bool
    dense: bool
    kind: str
    norm: str
    p: float
    bound: float
    lipschitz: float | None
    per_feature: tuple[float, ...] | None
    modulus: tuple[tuple[float, float], ...] | None
    curvature: float | None
    terms: tuple[tuple[str, str, float], ...]
    upper: float
    exceptional: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Claim:
        """The claim that `to_dict` described."""
        modulus, parts = facts["modulus"], facts["per_feature"]
        return cls(
            **facts
            | {
                "per_feature": None if parts is None else tuple(map(float, parts)),
                "modulus": None
                if modulus is None
                else tuple((float(h), float(w)) for h, w in modulus),
                "terms": tuple((str(name), str(on), float(v)) for name, on, v in facts["terms"]),
                "exceptional": float(facts["exceptional"]),
            }
        )
