"""Hugging Face configs: loaded without running code of theirs; the part that is about text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from transformers import CONFIG_MAPPING, PreTrainedConfig

from anyseq.errors import FileProblem, InvalidArgument, UnsupportedModel
from anyseq.hf import NAME
from anyseq.models.one_line import in_one_line

_MOST_LAYERS = 512
_LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "encoder_layers", "decoder_layers")


def as_config(given: Any) -> PreTrainedConfig:
    """The config: a transformers config, a dictionary, or the path of a config.json or of its
    folder.

    Configs that name code of their own (auto_map) are refused unless transformers has a model of
    that type itself; then that one is read.
    """
    config = given if isinstance(given, PreTrainedConfig) else _load(given)
    module = type(config).__module__
    if not module.startswith("transformers."):
        raise UnsupportedModel(
            f"{type(config).__name__} comes from {module}, not from transformers: what its model "
            "does cannot be read from it"
        )
    if getattr(config, NAME, None) is not None and config._attn_implementation == NAME:
        raise UnsupportedModel(
            f"{type(config).__name__}: the model was saved after anyseq.hf.use changed its "
            "attention, which its config does not describe; check the pattern that was put on"
        )
    return config


def text_part(config: PreTrainedConfig) -> PreTrainedConfig:
    """The config of the model's stack, or stacks, of layers over text."""
    if config.is_encoder_decoder:
        return config
    try:
        text = config.get_text_config()
    except ValueError as problem:
        raise UnsupportedModel(
            f"{type(config).__name__} has several text configs, so it is ambiguous; give the one "
            "that you mean"
        ) from problem
    if not isinstance(text, PreTrainedConfig):
        raise UnsupportedModel(
            f"{type(config).__name__} with a text config of type {type(text).__name__}; expected "
            "one that describes a model"
        )
    if getattr(text, "is_causal", True) is False:
        raise UnsupportedModel(
            f"{type(text).__name__} with is_causal=False: which attention follows it depends on "
            "the implementation; read the model, not its config"
        )
    return text


def check_layers(config: PreTrainedConfig) -> None:
    """A number of layers, before anything is made for each of them."""
    for name in _LAYERS:
        try:
            count = getattr(config, name, 0)
        except RuntimeError as problem:  # heterogeneous configs
            raise UnsupportedModel(
                f"{type(config).__name__}: {name} differs from layer to layer "
                f"({in_one_line(problem)}); give the config of a model whose layers share it"
            ) from problem
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= _MOST_LAYERS:
            raise UnsupportedModel(
                f"{type(config).__name__} with {name}={str(count)[:40]}: expected a whole number "
                f"from 0 to {_MOST_LAYERS:,}"
            )


def _load(given: Any) -> PreTrainedConfig:
    """The config that a dictionary or a file describes, by transformers' own class for its type."""
    values = given if isinstance(given, Mapping) else _read_json(given)
    kind = values.get("model_type")
    if not isinstance(kind, str):
        raise UnsupportedModel(
            f"config: model_type={kind!r}; expected the name of a model that transformers has"
        )
    if kind == "mistral" and "layer_types" in values:
        kind = "ministral"  # what transformers makes of it
    if kind not in CONFIG_MAPPING and values.get("auto_map"):
        raise UnsupportedModel(
            f"model_type={kind!r}: the config names code of its own (auto_map), which is never run"
        )
    if kind not in CONFIG_MAPPING:
        raise UnsupportedModel(f"model_type={kind!r}: transformers has no model of that type")
    try:
        return CONFIG_MAPPING[kind].from_dict(dict(values))
    except Exception as problem:  # transformers checks configs with errors of many kinds
        raise InvalidArgument(
            f"config of model_type {kind!r} cannot be read: {in_one_line(problem)}"
        ) from problem


def _read_json(path: Any) -> Mapping[str, Any]:
    if not isinstance(path, str | PathLike):
        raise InvalidArgument(
            f"config={type(path).__name__}: expected a transformers config, a dictionary, or the "
            "path of a config.json"
        )
    file = Path(path)
    try:
        if file.is_dir():
            file = file / "config.json"
        if not file.is_file():
            raise FileProblem(f"file not found: {file}; expected a config.json or its folder")
        found = json.loads(file.read_text())
    except (OSError, ValueError, RecursionError) as problem:
        raise FileProblem(f"{str(file)!r} cannot be read as a config: {problem}") from problem
    if not isinstance(found, dict):
        raise FileProblem(f"{str(file)!r} holds a {type(found).__name__}; expected a config")
    return found
