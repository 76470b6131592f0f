"""A model under audit: run on sequences of ids or vectors, with padding and documents."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import torch

from anyseq.base import generator
from anyseq.errors import UnsupportedModel
from anyseq.models.one_line import in_one_line

_SPECIAL_BELOW = 4  # ids that are special in most vocabularies
_READ = 11  # tokens that an encoder reads where the decoder is audited

_CLOSE = {torch.float64: 1e-4, torch.float32: 1e-4}  # softmax and angles are in float32 in many
_CLOSE_HALF = 3e-2

_INVERTED = ("key_padding_mask", "src_key_padding_mask")
_REAL = ("attention_mask", "key_mask", *_INVERTED)
_POSITIONS = ("position_ids", "positions")
_DOCUMENTS = ("document_ids", "doc_ids", "documents", "seq_idx")


@dataclass(eq=False)
class Subject:
    """A model, or one part of it, that maps sequences to sequences of as many tokens.

    module: what is run. how: whether it is the model itself or a copy, in words.
    stack: the part whose layers are audited: the decoder of an encoder-decoder, else the module.
    features: of the vectors that it reads; None if it reads ids. vocabulary: ordinary ids.
    part: "decoder" if its input is passed as decoder_input_ids.
    text, output: Python for the module, given the audited `model`, and for its output.
    tolerance: outputs that differ by no more, relative to the largest, count as equal.
    batched: whether rows may be run together; not where they influence each other.
    steady: whether two runs are equal; if not, differences between runs say nothing.
    given: the type of the weights that the caller's model has.
    """

    name: str
    module: Any
    how: str
    tokens: int
    stack: Any
    features: int | None = None
    vocabulary: torch.Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    part: str = ""
    text: str = "model"
    output: str = ""
    tolerance: float = 1e-4
    batched: bool = True
    steady: bool = True
    hugging_face: bool = False
    given: torch.dtype | None = None

    def __post_init__(self) -> None:
        self.takes = frozenset(_taken(self.module))

    def draw(self, rows: int = 1, seed: int = 0, tokens: int | None = None) -> torch.Tensor:
        """Random sequences: ids (rows, tokens), or vectors (rows, tokens, features)."""
        shape = (rows, tokens or self.tokens)
        if self.features is not None:
            x = torch.randn(*shape, self.features, generator=generator(seed), dtype=torch.float64)
            return x.to(self.dtype)
        return self.vocabulary[
            torch.randint(len(self.vocabulary), shape, generator=generator(seed))
        ]

    def other(self, x: torch.Tensor, seed: int = 1) -> torch.Tensor:
        """The same shape with other content at every token."""
        if self.features is not None:
            return torch.randn(x.shape, generator=generator(seed), dtype=torch.float64).to(x)
        count = len(self.vocabulary)
        steps = torch.randint(1, count, x.shape, generator=generator(seed))
        return self.vocabulary[(torch.searchsorted(self.vocabulary, x) + steps) % count]

    @property
    def dtype(self) -> torch.dtype:
        """Of its weights."""
        found = [one.dtype for one in self.module.parameters() if one.is_floating_point()]
        return found[0] if found else torch.get_default_dtype()

    def as_given(self) -> Subject | None:
        """The same with weights of the type that the caller's model has; None if it has it."""
        if self.given in (None, self.dtype):
            return None
        module = deepcopy(self.module).to(self.given)
        return replace(self, module=module, stack=module, tolerance=close(self.given))

    def apart(self, one: torch.Tensor, other: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """As `differ`, of outputs that were computed in two ways: differences no larger than
        rounding to float32 causes for x, in each of them, are 0."""
        found = self.differ(one, other)
        return torch.where(found > 2 * self._rounding(x), found, 0.0) if found.any() else found

    def _rounding(self, x: torch.Tensor) -> float:
        """How much rounding to float32 changes outputs, relative to the largest: parts of many
        models round this way, whatever their weights are."""
        if self.dtype != torch.float64:
            return 0.0
        rounded = replace(self, module=deepcopy(self.module).float())
        handed = x.float() if x.is_floating_point() else x
        return float(self.differ(self.run(x), rounded.run(handed)).max())

    def name_of(self, what: str) -> str | None:
        """The argument for "real" tokens, "positions" or "documents"; None if the model has
        none."""
        names = {"real": _REAL, "positions": _POSITIONS, "documents": _DOCUMENTS}[what]
        own = [f"decoder_{name}" for name in names] if self.part == "decoder" else names
        return next((name for name in own if name in self.takes), None)

    def arguments(self, x: torch.Tensor, **told: Any) -> dict[str, Any]:
        """Arguments by name, the sequence under "".

        told: real (rows, tokens) bool; positions, documents (rows, tokens) whole numbers; further
            arguments as they are.
        """
        given: dict[str, Any] = {}
        for what in ("real", "positions", "documents"):
            value, name = told.pop(what, None), self.name_of(what)
            if value is None:
                continue
            if name is None:
                raise UnsupportedModel(f"{self.name} takes no argument that says {what}")
            inverted = name.endswith(_INVERTED)
            mask = self.hugging_face and what == "real"
            given[name] = ~value if inverted else value.long() if mask else value
        given |= told
        if self.part == "decoder":
            read = self.vocabulary[:_READ].expand(len(x), -1)
            given = {"input_ids": read, "decoder_input_ids": x} | given
        elif self.hugging_face and "inputs_embeds" not in given:
            given = {"input_ids": x} | given
        elif not self.hugging_face:
            given = {"": x} | given
        if self.hugging_face and "use_cache" in self.takes:
            given = {"use_cache": False} | given
        return given

    def forward(self, given: dict[str, Any]) -> Any:
        """What the module returns, with the same random numbers each time."""
        device = next((one.device for one in self.module.parameters()), torch.device("cpu"))
        there = {
            name: one.to(device) if isinstance(one, torch.Tensor) else one
            for name, one in given.items()
        }
        first = [there.pop("")] if "" in there else []
        return self.module(*first, **there)

    def run(self, x: torch.Tensor, *, seed: int = 0, **told: Any) -> torch.Tensor:
        """(rows, tokens, anything), float64, without gradients."""
        if len(x) > 1 and not self.batched:
            rows = [
                self.run(x[row : row + 1], seed=seed, **_of_row(told, row, len(x)))
                for row in range(len(x))
            ]
            return torch.cat(rows)
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            out = sequence_of(self.forward(self.arguments(x, **told)))
        if out is None or out.shape[:2] != x.shape[:2]:
            came = None if out is None else tuple(out.shape)
            raise UnsupportedModel(
                f"{self.name} gave {came} for {tuple(x.shape)}: expected one output per token"
            )
        return out.double().cpu()

    def differ(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """(rows, tokens) how much outputs differ, relative to the largest; infinite for NaN in one
        of them, 0 for what counts as equal."""
        return differences(one, other, self.tolerance)


def _taken(module: torch.nn.Module) -> Iterator[str]:
    """The names of the arguments of forward; where it takes any, also those of the function that it
    wraps."""
    kinds = [vars(kind).get("forward") for kind in type(module).__mro__]
    for forward in (module.forward, *kinds):
        parameters = () if forward is None else signature(forward).parameters.values()
        yield from (one.name for one in parameters)
        if forward is not None and all(one.kind != one.VAR_KEYWORD for one in parameters):
            return


def differences(one: torch.Tensor, other: torch.Tensor, tolerance: float) -> torch.Tensor:
    """Of outputs (..., features): how much they differ, relative to the largest number; infinite
    for NaN in one of them, 0 up to the tolerance."""
    same = (one == other) | (one.isnan() & other.isnan())
    finite = one[one.isfinite()].abs()
    scale = float(finite.max()) if len(finite) else 1.0
    apart = torch.where(same, 0.0, (one - other).abs() / (scale or 1.0)).nan_to_num(nan=torch.inf)
    most = apart.amax(-1)
    return torch.where(most > tolerance, most, 0.0)


def _of_row(told: dict[str, Any], row: int, rows: int) -> dict[str, Any]:
    return {
        name: one[row : row + 1] if isinstance(one, torch.Tensor) and len(one) == rows else one
        for name, one in told.items()
    }


def sequence_of(out: Any) -> torch.Tensor | None:
    """The outputs (batch, tokens, anything) in what a model returns."""
    for key in ("logits", "prediction_logits", "last_hidden_state"):
        found = getattr(out, key, None)
        if isinstance(found, torch.Tensor):
            return found
    if isinstance(out, dict):
        out = tuple(out.values())
    if isinstance(out, tuple | list):
        out = next((one for one in out if isinstance(one, torch.Tensor)), None)
    return out if isinstance(out, torch.Tensor) and out.ndim == 3 else None


def ordinary_ids(count: int, config: Any = None) -> torch.Tensor:
    """Ids below `count` that are not special tokens, as far as a config says."""
    special = set(range(_SPECIAL_BELOW)) if count > 4 * _SPECIAL_BELOW else set()
    for name, value in (config.to_dict() if config is not None else {}).items():
        if name.endswith(("token_id", "token_index")):
            special |= set(value if isinstance(value, list) else [value])
    return torch.tensor([one for one in range(count) if one not in special])


def close(dtype: torch.dtype) -> float:
    """The tolerance of models with weights of that type."""
    return _CLOSE.get(dtype, _CLOSE_HALF)


def failed(name: str, problem: Exception) -> UnsupportedModel:
    """Whatever goes wrong in a model, in one line."""
    return UnsupportedModel(
        f"{name} could not be run: {type(problem).__name__}: {in_one_line(problem)}"
    )
