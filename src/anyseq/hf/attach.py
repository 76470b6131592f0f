"""`anyseq.hf.use`: anyseq's attention, with patterns and a URPE gain, on a loaded Hugging Face
model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
import transformers
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    PreTrainedConfig,
    PreTrainedModel,
)

from anyseq.base import one_of
from anyseq.errors import InvalidArgument, UnsupportedModel
from anyseq.hf.attend import ATTACHMENT, GAIN, NAME, SITE, Attachment, Site, attend
from anyseq.hf.gain import make_gain
from anyseq.hf.layers import Patterns
from anyseq.hf.mask import build_mask
from anyseq.hf.probe import probe
from anyseq.hf.saved import Saving
from anyseq.hf.wrappers import in_adapters, unwrapped
from anyseq.ops import BACKENDS
from anyseq.positions import Toeplitz

_SAVE = "save_pretrained"
# From which version of transformers on their attention goes through the AttentionInterface.
_SINCE = {"t5": "5.15", "mt5": "5.15", "umt5": "5.15"}

Model = TypeVar("Model", bound=torch.nn.Module)
Sites = list[tuple[torch.nn.Module, Site]]


def use(
    model: Model,
    pattern: Any = None,
    gain: bool | int | torch.Tensor | Toeplitz | None = None,
    *,
    backend: str = "auto",
) -> Model:
    """Let `anyseq.attention` compute the attention of `model`; returns `model`.

    Without further arguments only the implementation changes: what the model hides itself (the
    future, windows, chunks, packed sequences, padding) is left out instead of computed and masked.

    model: a PreTrainedModel, or one in a PeftModel, in torch.compile's module or in DDP.
    pattern: a Pattern, its text or a mask_mod(b, h, i, j), and-ed with the model's own mask in
        every self-attention layer. i and j count from the first real token of each sequence,
        wherever that is padded. Layer by layer: a tuple that layers cycle through; {layer:
        pattern}, where the others stay as they are; or a function of the layer, which may return
        None. Layers are numbered from 0 in the order in which they run, not counting
        cross-attention and modules that are not attention; those of a decoder come after those of
        its encoder.
    gain: True for a learnable URPE table of ones, (heads, 2n-1) with n the config's
        max_position_embeddings, one for all layers; n itself; or the table to start from. It
        becomes the parameter `model.anyseq_gain.coefficients`.
    backend: as in `anyseq.attention`.

    Cross-attention has neither pattern nor gain; a part that does not run on text, such as the
    vision tower of a language model, stays as it is. No N x N mask is built. The model is run on a
    few tokens to see that pattern, causality and padding take effect; if they do not, or attention
    does not go through transformers' AttentionInterface, UnsupportedModel says why and the model is
    as before.

    `model.save_pretrained(folder)` saves what was put on, and `from_pretrained` puts it on again;
    transformers alone refuses to load such a model as one with another attention.
    """
    inner = unwrapped(model)
    one_of("backend", backend, ("auto", *BACKENDS))
    if gain is False:
        gain = None
    if gain is not None and in_adapters(model):
        raise InvalidArgument(
            f"gain with model={type(model).__name__}: its adapters would not save it; call use on "
            'the model before get_peft_model, and name modules_to_save=["anyseq_gain"] there'
        )
    before = [(config, config._attn_implementation) for config in _configs(inner)]
    old = _take_off(inner)
    original = before if old is None else old.attachment.original
    attachment = Attachment(inner, backend, original)
    new = _On(attachment, None, [(module, Site(attachment)) for module in inner.modules()])
    try:
        new.gain = None if gain is None else make_gain(inner, gain)
        _put_on(inner, new)
        _set_implementation(inner)
        probe(inner, attachment, pattern)
    except BaseException:
        _take_off(inner)
        _reset(before)
        if old is not None:
            _put_on(inner, old)
        raise
    return model


def restore(model: Model) -> Model:
    """Undo `use`: the model has the attention it was loaded with, and no gain."""
    was = _take_off(unwrapped(model))
    if was is not None:
        _reset(was.attachment.original)
    return model


def patterns_on(model: torch.nn.Module) -> Patterns | None:
    """What `use` put on each self-attention layer of a model; None if it was not used."""
    attachment: Attachment | None = unwrapped(model).__dict__.get(ATTACHMENT)
    return None if attachment is None else attachment.patterns


def has_gain(model: torch.nn.Module) -> bool:
    """Whether `use` put a gain on a model."""
    return hasattr(unwrapped(model), GAIN)


@dataclass
class _On:
    """What is put on a model, or was taken off it."""

    attachment: Attachment
    gain: torch.nn.Module | None
    sites: Sites


def _put_on(model: PreTrainedModel, on: _On) -> None:
    if on.gain is not None:
        setattr(model, GAIN, on.gain)
    model.__dict__[ATTACHMENT] = on.attachment
    for module, site in on.sites:
        module.__dict__[SITE] = site
    parts = [module for module in model.modules() if isinstance(module, PreTrainedModel)]
    for part in parts:
        part.__dict__[_SAVE] = Saving(model, part)
    on.attachment.hooks = [
        part.register_forward_pre_hook(partial(_before, on.attachment), with_kwargs=True)
        for part in parts
    ]


def _take_off(model: PreTrainedModel) -> _On | None:
    """What `_put_on` put on; None if there is nothing."""
    attachment: Attachment | None = model.__dict__.pop(ATTACHMENT, None)
    if attachment is None:
        return None
    was = _On(
        attachment,
        attachment.gain,
        [(part, part.__dict__.pop(SITE)) for part in model.modules() if SITE in part.__dict__],
    )
    for part in model.modules():
        part.__dict__.pop(_SAVE, None)
    for hook in attachment.hooks:
        hook.remove()
    if was.gain is not None:
        delattr(model, GAIN)
    return was


def _set_implementation(model: PreTrainedModel) -> None:
    # The attention function and the mask function must have the same name: without the second,
    # transformers hands attention_mask=None to the first.
    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, build_mask)
    for module in model.modules():  # the model itself is the first
        if not isinstance(module, PreTrainedModel):
            continue
        if module.config._attn_implementation != NAME:
            # A part with a config of its own is not always told by the whole (T5's two stacks).
            module.set_attn_implementation(NAME)
        if module.config._attn_implementation != NAME:
            whose = "its attention"
            if module is not model:
                whose = f"the attention of its {type(module).__name__}"
            since = _SINCE.get(module.config.model_type)
            advice = "choose a model whose attention does (BERT, GPT-2, Llama, ...)"
            if since is not None:
                advice = f"it does from transformers {since} on: update transformers"
            raise UnsupportedModel(
                f"{type(model).__name__}: in transformers {transformers.__version__} {whose} does "
                "not go through the AttentionInterface, so a pattern or gain would have no "
                f"effect; {advice}"
            )


def _configs(model: PreTrainedModel) -> Iterator[PreTrainedConfig]:
    """Every config of the model and its parts, once each, the outer before the inner."""
    queue: list[PreTrainedConfig | None] = [
        part.config for part in model.modules() if isinstance(part, PreTrainedModel)
    ]
    met: set[int] = set()
    while queue:
        config = queue.pop(0)
        if config is not None and id(config) not in met:
            met.add(id(config))
            yield config
            queue.extend(getattr(config, name, None) for name in config.sub_configs)


def _reset(implementations: list[tuple[PreTrainedConfig, Any]]) -> None:
    for config, implementation in implementations:
        config._attn_implementation = implementation


def _before(
    attachment: Attachment, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    if attachment.record is not None:
        attachment.ran.add(module)
    # Some models keep this from their attention layers, and would then return an empty tuple.
    if kwargs.get("output_attentions"):
        raise InvalidArgument(
            f"output_attentions=True: {type(module).__name__} runs on anyseq.attention, which "
            "keeps no N x M weights; call anyseq.hf.restore(model) and use 'eager' to see them"
        )
