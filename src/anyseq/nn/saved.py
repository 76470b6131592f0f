"""A Transformer in a folder: its arguments and its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from anyseq.base import read_folder, write_folder
from anyseq.design import Design
from anyseq.errors import FileProblem, InvalidArgument
from anyseq.nn.norms import Norms

if TYPE_CHECKING:
    from anyseq.nn.transformer import Transformer

FORMAT, VERSION = "anyseq transformer", 1
_NOT_SAVED = ("self", "mixers", "dtype", "device")

Model = TypeVar("Model", bound="Transformer")


def settings_of(cls: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a Transformer was made with, except device and dtype."""
    names = signature(cls.__init__).parameters  # type: ignore[misc]
    return {name: given[name] for name in names if name in given and name not in _NOT_SAVED}


def save_transformer(model: Transformer, folder: str | Path) -> None:
    """`Transformer.save`."""
    changed = {name: tuple(one.shape) for name, one in model.state_dict().items()}
    if changed != model.made:
        names = sorted(name for name, _ in changed.items() ^ model.made.items())
        raise InvalidArgument(
            f"model: {names[0]} and {len(names) - 1} more are not what its arguments make, so "
            "that it could not be loaded; expected a model whose modules are as they were made "
            "(merge adapters first), or save model.state_dict() yourself"
        )
    settings = dict(model.settings)
    settings["design"] = model.design.to_dict()
    if isinstance(settings["norms"], Norms):
        settings["norms"] = asdict(settings["norms"])
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    write_folder(
        folder,
        format=FORMAT,
        version=VERSION,
        facts={"settings": settings, "dtype": dtype},
        groups={"model": model.state_dict()},
    )


def load_transformer(
    cls: type[Model], folder: str | Path, device: torch.device | str | None
) -> Model:
    """`Transformer.load`."""
    facts, groups = read_folder(folder, format=FORMAT, version=VERSION)
    try:
        settings = dict(facts["settings"])
        settings["design"] = Design.from_dict(settings["design"])
        if isinstance(settings["norms"], Mapping):
            settings["norms"] = Norms(**settings["norms"])
        dtype = getattr(torch, facts["dtype"])
        with torch.random.fork_rng(devices=[]):  # the weights that it starts with are not kept
            model = cls(**settings, dtype=dtype, device=device)
        model.load_state_dict(groups["model"])
    except (KeyError, TypeError, AttributeError, RuntimeError) as problem:
        raise FileProblem(
            f"folder={str(folder)!r}: no Transformer can be made from it "
            f"({type(problem).__name__}: {problem}); save it again"
        ) from problem
    return model


def redesigned(model: Model, design: Design) -> Model:
    """`Transformer.with_design`."""
    like = next(model.parameters())
    other = type(model)(**model.settings | {"design": design}, dtype=like.dtype, device=like.device)
    own, wanted = model.state_dict(), other.state_dict()
    for name, tensor in own.items():
        if name in wanted and wanted[name].shape != tensor.shape:
            raise InvalidArgument(
                f"design: {name} would have shape {tuple(wanted[name].shape)}, the model has "
                f"{tuple(tensor.shape)}; expected a design with tokens={model.design.tokens}"
            )
    left = sorted(own.keys() - wanted.keys() - model.no_decay)
    if left:
        raise InvalidArgument(
            f"design: it has no place for {left[0]}; expected one whose layers are of the same "
            "kinds"
        )
    other.load_state_dict(own, strict=False)
    other.train(model.training)
    return other
