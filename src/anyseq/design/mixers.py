"""How a layer moves content between tokens, where that is not attention: frozen descriptions.

Each says which tokens a token gets content from (`sees`), and how it is written (`str`), which
`parse_mixer` reads; trainable modules live in `anyseq.nn`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from anyseq.base import at_least_one
from anyseq.errors import InvalidArgument
from anyseq.patterns import Causal, Pattern, Window

ATTENTION = "attention"


@dataclass(frozen=True)
class Mixer(ABC):
    """The base of these descriptions."""

    @property
    def takes_pattern(self) -> bool:
        """Whether the layer's pattern says which tokens are mixed; otherwise the mixer does."""
        return True

    @abstractmethod
    def sees(self, pattern: Pattern) -> Pattern:
        """Which tokens each token gets content from, in a layer with this pattern."""

    def of_the_past(self) -> Mixer:
        """The mixer of a causal model, if the pattern alone does not make it causal."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready description; `mixer_from_dict` reads it back."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {"kind": type(self).__name__} | values


@dataclass(frozen=True)
class Convolution(Mixer):
    """Σ_o W_o x_(i-o) over `width` offsets, with zeros outside the sequence.

    The window is centred at the token, so that its width is odd; `causal` ends it there.
    """

    width: int
    causal: bool = False

    def __str__(self) -> str:
        return f"convolution({self.width}{', causal' * self.causal})"

    def __post_init__(self) -> None:
        if at_least_one("width", self.width) < 2 or not (self.causal or self.width % 2):
            raise InvalidArgument(
                f"width={self.width}: expected an odd number from 3 on; with causal=True any from "
                "2 on"
            )

    @property
    def takes_pattern(self) -> bool:
        return False

    def sees(self, pattern: Pattern) -> Pattern:
        if self.causal:
            return Window(self.width - 1, 0)
        return Window(self.width // 2)

    def of_the_past(self) -> Convolution:
        """As wide as before, and ending at the token."""
        return Convolution(self.width, causal=True)


@dataclass(frozen=True)
class Recurrence(Mixer):
    """A state that is carried from token to token, from a fixed start: output i is a function of
    x_0, ..., x_i (diagonal state spaces, Mamba, RG-LRU, gated delta rules)."""

    def __str__(self) -> str:
        return "recurrence"

    @property
    def takes_pattern(self) -> bool:
        return False

    def sees(self, pattern: Pattern) -> Pattern:
        return Causal()


@dataclass(frozen=True)
class LinearAttention(Mixer):
    """Σ_j φ(q_i)·φ(k_j) v_j over the tokens of the pattern; `normalised` divides by the sum of
    these weights."""

    normalised: bool = True

    def __str__(self) -> str:
        return "linear" if self.normalised else "linear(raw)"

    def sees(self, pattern: Pattern) -> Pattern:
        return pattern


@dataclass(frozen=True)
class Average(Mixer):
    """The mean of the tokens of the pattern."""

    def __str__(self) -> str:
        return "average"

    def sees(self, pattern: Pattern) -> Pattern:
        return pattern


@dataclass(frozen=True)
class Bilinear(Mixer):
    """Σ_j P_ij x_j W with a learned number P_ij for every pair of positions in the pattern."""

    def __str__(self) -> str:
        return "bilinear"

    def sees(self, pattern: Pattern) -> Pattern:
        return pattern


_KINDS: dict[str, type[Mixer]] = {
    cls.__name__: cls for cls in (Convolution, Recurrence, LinearAttention, Average, Bilinear)
}
_NAMES: dict[str, type[Mixer]] = {
    "recurrence": Recurrence,
    "linear": LinearAttention,
    "average": Average,
    "bilinear": Bilinear,
}


def resolve_mixer(mixer: object) -> str | Mixer:
    """ "attention", or a description; a mixer without parameters may also be given by name."""
    if isinstance(mixer, Mixer) or mixer == ATTENTION:
        return mixer
    if isinstance(mixer, str) and mixer in _NAMES:
        return _NAMES[mixer]()
    names = ", ".join(repr(name) for name in (ATTENTION, *_NAMES))
    raise InvalidArgument(
        f"mixer={mixer!r}: expected {names}, or a description such as Convolution(3)"
    )


def parse_mixer(text: str) -> Mixer | None:
    """The mixer as people write it: "convolution(3)", "convolution(3, causal)", "recurrence",
    "linear", "linear(raw)", "average", "bilinear"; None if it is the name of none of them."""
    plain = re.sub(r"\s", "", text).lower()
    if plain.partition("(")[0] not in ("convolution", *_NAMES):
        return None
    if found := re.fullmatch(r"convolution\(([0-9]{1,18})(,causal)?\)", plain):
        return Convolution(int(found[1]), causal=found[2] is not None)
    if plain == "linear(raw)":
        return LinearAttention(normalised=False)
    if plain in _NAMES:
        return _NAMES[plain]()
    raise InvalidArgument(f"mixer {text!r} cannot be read: expected one of {', '.join(WRITTEN)}")


WRITTEN = ("convolution(3)", "convolution(3, causal)", *_NAMES, "linear(raw)")
"""How mixers are written."""


def mixer_from_dict(description: Any) -> str | Mixer:
    """The mixer that `to_dict` described; attention is its name."""
    if isinstance(description, str):
        return resolve_mixer(description)
    values = dict(description) if isinstance(description, Mapping) else {}
    cls = _KINDS.get(str(values.pop("kind", None)))
    if cls is None or values.keys() - {item.name for item in fields(cls)}:
        raise InvalidArgument(
            f"mixer {description!r} cannot be read: expected {ATTENTION!r} or one of "
            f"{', '.join(_KINDS)} with its arguments"
        )
    return cls(**values)
