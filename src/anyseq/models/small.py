"""A small copy of a Hugging Face model, from its config alone, with random weights, on a CPU."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto

from anyseq.base import generator
from anyseq.errors import InvalidArgument, UnsupportedModel
from anyseq.models.one_line import in_one_line
from anyseq.models.sizes import READ_TOKENS, scaled

TOKENS = 29
"""The length at which small models are run: prime, so that no other size is mistaken for it."""

ROWS = 16
"""Equal sequences in a batch: the more, the fewer backward passes, and the more memory. Another
number than that of tokens, so that the two axes can be distinguished."""

_MOST_WEIGHTS = 100_000_000


@dataclass(frozen=True, eq=False)
class Small:
    """A small copy, in evaluation mode.

    widths: the windows and chunks that were made smaller: name -> (its width here, its real one).
    """

    model: PreTrainedModel
    widths: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def inputs(self) -> dict[str, Any]:
        """Sequences of different tokens, the same one in every row."""
        return self._inputs(
            torch.randint(10, 60, (READ_TOKENS,), generator=generator(1), dtype=torch.int64)
        )

    @property
    def equal_inputs(self) -> dict[str, Any]:
        """Sequences of equal tokens."""
        return self._inputs(torch.full((READ_TOKENS,), 17))

    def _inputs(self, ids: torch.Tensor) -> dict[str, Any]:
        config, rows = self.model.config, ids.expand(ROWS, -1)
        if self.model.main_input_name == "pixel_values":
            return {"pixel_values": self._numbers(ids, config.num_channels, *_image(config))}
        written = {"decoder_input_ids": rows[:, :TOKENS]}
        if self.model.main_input_name == "input_features":
            frames = 2 * config.max_source_positions
            return {"input_features": self._numbers(ids, config.num_mel_bins, frames), **written}
        if config.is_encoder_decoder:
            return {"input_ids": rows, **written}
        return {"input_ids": rows[:, :TOKENS]}

    def _numbers(self, ids: torch.Tensor, *shape: int) -> torch.Tensor:
        """A picture or a sound: noise, or the same everywhere if ids are."""
        noise = torch.randn(shape, generator=generator(1), dtype=self.model.dtype)
        same = bool((ids == ids[0]).all())
        return (torch.ones_like(noise) if same else noise).expand(ROWS, *shape)

    def run(self, inputs: dict[str, Any]) -> Any:
        """One forward pass, with the same random numbers each time."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            try:
                return self.model(**inputs, use_cache=False)
            except TypeError:
                return self.model(**inputs)


def small(
    config: PreTrainedConfig,
    dtype: torch.dtype = torch.float64,
    *,
    wider: int = 0,
    gain: float = 1.0,
    kind: type[PreTrainedModel] | None = None,
) -> Small:
    """The small copy of the model that a config describes.

    wider: an even number for another one, with other weights, and windows that are wider by so
        much. gain: a factor of all weights. kind: the class of the model; unless given,
        transformers' own without a head.
    """
    kind = kind or model_class(config)
    name = type(config).__name__
    widths: dict[str, tuple[int, int]] = {}
    try:
        own = type(config).from_dict(scaled(config.to_dict(), widths, wider))
        own._attn_implementation = "eager"
        _check_size(kind, own)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = kind(own)
    except UnsupportedModel:
        raise
    except InvalidArgument as problem:
        raise UnsupportedModel(f"{name} with {problem}") from problem
    except Exception as problem:  # transformers' models fail in as many ways as there are models
        raise UnsupportedModel(
            f"{name}: no small copy can be built from it: {type(problem).__name__}: "
            f"{in_one_line(problem)}"
        ) from problem
    if model._can_set_experts_implementation():
        model.set_experts_implementation("eager")  # the quicker ones know no float64
    torch.nn.Module.to(model.eval(), dtype=dtype)
    return Small(_with_random_weights(model, wider, gain), widths)


def small_copy(config: PreTrainedConfig, kind: type[PreTrainedModel]) -> PreTrainedModel:
    """A model of a class, built from a config with the same layers, few features, short windows
    and random weights; it attends by the function that the config names."""
    model = small(config, torch.float32, kind=kind).model
    if config._attn_implementation not in (None, "eager"):
        model.set_attn_implementation(config._attn_implementation)
    return model


def _check_size(kind: type[PreTrainedModel], own: PreTrainedConfig) -> None:
    """The copy is small, before it is built."""
    try:
        with torch.device("meta"):
            size = sum(one.numel() for one in kind(own).parameters())
    except (RuntimeError, NotImplementedError):
        return  # it looks at its weights as it is built, and cannot be without
    if size > _MOST_WEIGHTS:
        raise UnsupportedModel(
            f"{type(own).__name__}: even a small copy of it has {size:,} weights; expected up "
            f"to {_MOST_WEIGHTS:,}"
        )


def model_class(config: PreTrainedConfig) -> type[PreTrainedModel]:
    """transformers' model of that config, without a head if there is such a one."""
    for mapping in (
        modeling_auto.MODEL_MAPPING,
        modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING,
        modeling_auto.MODEL_FOR_MASKED_LM_MAPPING,
        modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    ):
        if type(config) in mapping:
            with suppress(ValueError):  # a name in the mapping that nothing has
                found: Any = mapping[type(config)]
                kind: type[PreTrainedModel] = found[0] if isinstance(found, list | tuple) else found
                return kind
    return _beside(config)


def _beside(config: PreTrainedConfig) -> type[PreTrainedModel]:
    """The model of a part of others, which stands beside its config."""
    name, kind = type(config).__module__, type(config)
    with suppress(ImportError):
        module = import_module(name.replace("configuration_", "modeling_"))
        for found in vars(module).values():
            if (
                isinstance(found, type)
                and issubclass(found, PreTrainedModel)
                and found.config_class is kind
                and found.__name__.endswith("Model")
                and not found.__name__.endswith("PreTrainedModel")
            ):
                return found
    raise UnsupportedModel(f"{kind.__name__}: transformers has no model of it to read")


def _with_random_weights(model: PreTrainedModel, seed: int, gain: float) -> PreTrainedModel:
    """All that is learned normal, of a size that keeps activations near 1: values that start at 0
    or 1, such as gates, biases and scales of norms, would be mistaken for structure."""
    rng = generator(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point() and parameter.requires_grad:
                fan = min(parameter.shape[-2:]) if parameter.ndim > 1 else 1
                noise = torch.randn(parameter.shape, generator=rng, dtype=torch.float64)
                parameter.copy_(gain * noise / max(fan, 1) ** 0.5)
    return model


def _image(config: PreTrainedConfig) -> tuple[int, int]:
    size = config.image_size
    return (size, size) if isinstance(size, int) else tuple(size)
