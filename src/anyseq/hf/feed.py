"""What the probe feeds a model: tokens, pictures or sounds, of sizes that its config names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

IDS = "input_ids"
_OTHERS = ("pixel_values", "input_features", "input_values")
_SAMPLES = 4000  # of a sound: a dozen tokens for wav2vec2 and its kin
_FRAMES = 64  # of features of a sound, where the config does not say how many


@dataclass(frozen=True)
class Feed:
    """The names of the inputs that a model gets."""

    model: PreTrainedModel
    names: tuple[str, ...]

    @property
    def reads_tokens(self) -> bool:
        return IDS in self.names

    def inputs(
        self, read: torch.Tensor, written: torch.Tensor, mask: torch.Tensor | None
    ) -> dict[str, Any]:
        """`read` goes to the encoder of an encoder-decoder, `written` to its decoder, or to the
        only stack."""
        config, rows = self.model.config, len(written)
        given: dict[str, Any] = {
            name: _noise(self.model, name, rows) for name in self.names if name != IDS
        }
        if self.reads_tokens:
            given |= {IDS: read if config.is_encoder_decoder else written, "attention_mask": mask}
        if config.is_encoder_decoder:
            given |= {"decoder_input_ids": written, "decoder_attention_mask": mask}
        elif getattr(config, "add_cross_attention", False):
            embedded = self.model.get_input_embeddings()(tokens(self.model, 5))
            given["encoder_hidden_states"] = embedded.expand(rows, -1, -1)
        takes = signature(self.model.base_model.forward).parameters
        return {name: value for name, value in given.items() if name in takes}


def feeds(model: PreTrainedModel) -> Iterator[Feed]:
    """The inputs to try, the most likely first: the main input, and that with another beside it."""
    base = model.base_model
    main: Any = base.main_input_name
    if main not in (IDS, *_OTHERS):
        return
    yield Feed(model, (main,))
    takes = signature(base.forward).parameters
    for other in (IDS, *_OTHERS):
        if other != main and other in takes:
            yield Feed(model, tuple(sorted((main, other))))


def tokens(model: PreTrainedModel, length: int, shift: int = 0) -> torch.Tensor:
    """(length,) token numbers, none of them special; with another shift all are others."""
    config = model.config.get_text_config()
    special = {
        value
        for name, value in vars(config).items()
        if name.endswith(("_token_id", "_token_index")) and isinstance(value, int)
    }
    known = getattr(config, "vocab_size", None) or 64
    usual = [token for token in range(min(known, 128)) if token not in special]
    return torch.tensor(
        [usual[(i + shift) % len(usual)] for i in range(length)], device=model.device
    )


def _noise(model: PreTrainedModel, name: str, rows: int) -> torch.Tensor:
    """Numbers in the shape that the model reads, the same in every row."""
    shape = _SHAPES[name](model.config)
    random = torch.Generator().manual_seed(0)
    noise = torch.randn(shape, generator=random).to(model.device, model.dtype)
    return noise.expand(rows, *shape)


def _pixels(config: PreTrainedConfig) -> tuple[int, ...]:
    config = getattr(config, "vision_config", config)
    size = _first(config, "image_size", default=224)
    high, wide = (size, size) if isinstance(size, int) else tuple(size)[-2:]
    frames = getattr(config, "num_frames", None)
    channels = _first(config, "num_channels", "in_channels", default=3)
    return (channels, high, wide) if frames is None else (frames, channels, high, wide)


def _features(config: PreTrainedConfig) -> tuple[int, ...]:
    config = getattr(config, "audio_config", config)
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_source_positions"):  # Whisper
        return config.num_mel_bins, 2 * config.max_source_positions
    sizes = ("feature_projection_input_dim", "input_feat_per_channel", "num_mel_bins", "input_dim")
    return _FRAMES, _first(config, *sizes, default=80)


def _values(config: PreTrainedConfig) -> tuple[int, ...]:
    config = getattr(config, "audio_config", config)
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_length"):  # a spectrogram
        return config.max_length, config.num_mel_bins
    return (_SAMPLES,)


_SHAPES = {"pixel_values": _pixels, "input_features": _features, "input_values": _values}


def _first(config: PreTrainedConfig, *names: str, default: Any) -> Any:
    found = (getattr(config, name, None) for name in names)
    return next((value for value in found if value is not None), default)
