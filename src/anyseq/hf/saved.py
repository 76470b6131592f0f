"""What `use` put on a model, saved with it and put on again.

`save_pretrained` writes into config.json

    "attn_implementation": "anyseq"    transformers refuses to load this if it is not
                                       registered, and the registered function refuses to run
                                       without `use`
    "anyseq": {...}                    the pattern, or those of the layers, whether there is a gain,
                                       the backend

so a model never comes back with another attention than it was saved with, unless the caller asks
for that by name (`attn_implementation=...`). The gain is among the weights.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.utils.hub import cached_file

from anyseq.errors import FileProblem, InvalidArgument
from anyseq.hf.attend import ATTACHMENT, GAIN, NAME, Attachment
from anyseq.patterns import Pattern, pattern_from_dict

_COEFFICIENTS = f"{GAIN}.coefficients"
_VERSION = 2  # 1 had one pattern for all layers
_WRITTEN = ("anyseq", "attn_implementation")
_NONE = object()


class Saving:
    """`save_pretrained` of a model that `use` was called on, or of a part of one.

    It lives in the model, not in its config, which several models may share; and it is not a
    closure, so that a copy of the model saves itself.
    """

    def __init__(self, model: PreTrainedModel, part: PreTrainedModel) -> None:
        self.model, self.part = model, part

    def __call__(self, save_directory: Any, *args: Any, **kwargs: Any) -> Any:
        attachment: Attachment = self.model.__dict__[ATTACHMENT]
        if attachment.gain is not None and self.part is not self.model:
            raise InvalidArgument(
                f"{type(self.part).__name__}: it is a part of a model with a gain, which belongs "
                "to the whole; save that"
            )
        config = self.part.config
        before = {name: vars(config).get(name, _NONE) for name in _WRITTEN}
        config.anyseq, config.attn_implementation = _facts(attachment), NAME
        try:
            return type(self.part).save_pretrained(self.part, save_directory, *args, **kwargs)
        finally:
            for name, value in before.items():
                vars(config).pop(name)
                if value is not _NONE:
                    setattr(config, name, value)


def _facts(attachment: Attachment) -> dict[str, Any]:
    """JSON-ready. A pattern with a user-defined function cannot be written down; that it is missing
    is recorded."""
    facts: dict[str, Any] = {
        "version": _VERSION,
        "pattern": None,
        "gain": attachment.gain is not None,
        "backend": attachment.backend,
    }
    try:
        each = [None if one is None else one.to_dict() for one in attachment.patterns]
    except InvalidArgument as problem:
        facts["lost"] = str(problem)
    else:
        facts["pattern"] = each[0] if all(one == each[0] for one in each) else each
    return facts


def described(
    config: PreTrainedConfig, folder: Any, variant: str | None, **where: Any
) -> dict[str, Any]:
    """What `use` had put on the model saved there with this config, as arguments of `use`."""
    facts = getattr(config, "anyseq", None)
    if not isinstance(facts, dict) or config._attn_implementation != NAME:
        raise FileProblem(
            f"folder={str(folder)!r}: its config.json does not name attention by anyseq; expected "
            "a model that was saved after anyseq.hf.use"
        )
    if facts.get("version") not in range(1, _VERSION + 1):
        raise FileProblem(
            f"folder={str(folder)!r}: 'anyseq' in its config.json has version "
            f"{facts.get('version')!r}; this anyseq reads versions 1 to {_VERSION}"
        )
    if "lost" in facts:
        raise FileProblem(
            f"folder={str(folder)!r}: its pattern could not be saved ({facts['lost']}); load the "
            'model with attn_implementation="sdpa" and call anyseq.hf.use(model, pattern)'
        )
    pattern = facts.get("pattern")
    return {
        "pattern": (
            tuple(_read(one) for one in pattern) if isinstance(pattern, list) else _read(pattern)
        ),
        "gain": _gain(folder, variant, **where) if facts.get("gain") else None,
        "backend": facts.get("backend", "auto"),
    }


def _read(pattern: Any) -> Pattern | None:
    return None if pattern is None else pattern_from_dict(pattern)


@contextmanager
def expecting_the_gain() -> Iterator[None]:
    """Inside, transformers does not report the gain as a tensor that it has no place for: it is put
    in its place afterwards."""
    before = PreTrainedModel._keys_to_ignore_on_load_unexpected
    PreTrainedModel._keys_to_ignore_on_load_unexpected = [*(before or ()), re.escape(_COEFFICIENTS)]
    try:
        yield
    finally:
        PreTrainedModel._keys_to_ignore_on_load_unexpected = before


def _gain(folder: Any, variant: str | None, **where: Any) -> torch.Tensor:
    """The table among the weights, which may be in several files."""
    kind = "" if variant is None else f".{variant}"
    name, listed = f"model{kind}.safetensors", f"model.safetensors.index{kind}.json"
    index = cached_file(folder, listed, _raise_exceptions_for_missing_entries=False, **where)
    if index is not None:
        name = json.loads(Path(index).read_text())["weight_map"].get(_COEFFICIENTS, name)
    file = cached_file(folder, name, _raise_exceptions_for_missing_entries=False, **where)
    if file is not None:
        with safe_open(file, framework="pt") as tensors:
            if _COEFFICIENTS in tensors.keys():  # noqa: SIM118  # it is no mapping
                found: torch.Tensor = tensors.get_tensor(_COEFFICIENTS)
                return found
    raise FileProblem(f"folder={str(folder)!r}: expected the tensor {_COEFFICIENTS!r} in {name!r}")
