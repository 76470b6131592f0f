"""`anyseq.hf.use`: a pattern and a URPE gain on a loaded Hugging Face model."""

from __future__ import annotations

from collections.abc import Iterator
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
from anyseq.hf.attend import ATTACHMENT, NAME, SITE, Attachment, Site, attend
from anyseq.hf.gain import make_gain
from anyseq.hf.mask import build_mask
from anyseq.hf.probe import probe
from anyseq.hf.saved import Saving, described, expecting_the_gain
from anyseq.ops import BACKENDS
from anyseq.patterns import PatternLike, as_pattern
from anyseq.positions import Toeplitz

_SAVE = "save_pretrained"
# From which version of transformers on their attention goes through the AttentionInterface.
_SINCE = {"t5": "5.15", "mt5": "5.15", "umt5": "5.15"}
_WHERE = ("cache_dir", "revision", "token", "local_files_only", "subfolder")  # of from_pretrained

Model = TypeVar("Model", bound=PreTrainedModel)
Sites = list[tuple[torch.nn.Module, Site]]


def use(
    model: Model,
    pattern: PatternLike = None,
    gain: bool | int | torch.Tensor | Toeplitz | None = None,
    *,
    backend: str = "auto",
) -> Model:
    """Put a pattern, a gain or both on every self-attention layer of `model`; returns `model`.

    pattern: a Pattern, its text or a mask_mod(b, h, i, j), and-ed with the model's own mask. i and
        j count from the first real token of each sequence, wherever that is padded.
    gain: True for a learnable URPE table of ones, (heads, 2n-1) with n the config's
        max_position_embeddings, one for all layers; n itself; or the table to start from. It
        becomes the parameter `model.anyseq_gain.coefficients`.
    backend: as in `anyseq.attention`.

    Cross-attention stays as it is. No N x N mask is built. The model is run on a few tokens to see
    that the pattern, causality and padding take effect; if they do not, or attention does not go
    through transformers' AttentionInterface, UnsupportedModel says why and the model is as before.

    `model.save_pretrained(folder)` saves what was put on, and `load` puts it on again; transformers
    alone refuses to load such a model as one with another attention.
    """
    if not isinstance(model, PreTrainedModel):
        raise InvalidArgument(
            f"model={type(model).__name__}: expected a transformers.PreTrainedModel"
        )
    one_of("backend", backend, ("auto", *BACKENDS))
    if gain is False:
        gain = None
    if pattern is None and gain is None:
        raise InvalidArgument("pattern, gain: neither is given; expected one of them, or both")
    before = [(config, config._attn_implementation) for config in _configs(model)]
    old, old_sites = _take_off(model)
    new = Attachment(
        pattern=None if pattern is None else as_pattern(pattern),
        gain=None if gain is None else make_gain(model, gain),
        backend=backend,
        original=before if old is None else old.original,
    )
    try:
        _put_on(model, new, [(module, Site(new)) for module in model.modules()])
        _set_implementation(model)
        probe(model, new)
    except BaseException:
        _take_off(model)
        _reset(before)
        if old is not None:
            _put_on(model, old, old_sites)
        raise
    return model


def load(model_class: Any, folder: Any, **arguments: Any) -> Any:
    """`model_class.from_pretrained(folder, **arguments)`, of a model that was saved after `use`,
    with what `use` had put on it."""
    where = {name: arguments[name] for name in _WHERE if name in arguments}
    put_on = described(folder, arguments.get("variant"), **where)
    with expecting_the_gain():
        loaded = model_class.from_pretrained(folder, **{"attn_implementation": None} | arguments)
    model, *info = loaded if isinstance(loaded, tuple) else (loaded,)  # output_loading_info=True
    del model.config.anyseq  # what is on the model says it from now on
    use(model, **put_on)
    return (model, *info) if info else model


def restore(model: Model) -> Model:
    """Undo `use`: the model has the attention it was loaded with, and no gain."""
    attachment, _ = _take_off(model)
    if attachment is not None:
        _reset(attachment.original)
    return model


def _put_on(model: PreTrainedModel, attachment: Attachment, sites: Sites) -> None:
    if attachment.gain is not None:
        model.anyseq_gain = attachment.gain
    model.__dict__[ATTACHMENT] = attachment
    for module, site in sites:
        module.__dict__[SITE] = site
    parts = [module for module in model.modules() if isinstance(module, PreTrainedModel)]
    for part in parts:
        part.__dict__[_SAVE] = Saving(model, part)
    attachment.hooks = [
        part.register_forward_pre_hook(_refuse_output_attentions, with_kwargs=True)
        for part in parts
    ]


def _take_off(model: PreTrainedModel) -> tuple[Attachment | None, Sites]:
    """What `_put_on` put on, or (None, [])."""
    attachment: Attachment | None = model.__dict__.pop(ATTACHMENT, None)
    sites = [
        (module, module.__dict__.pop(SITE)) for module in model.modules() if SITE in module.__dict__
    ]
    if attachment is not None:
        for part in model.modules():
            part.__dict__.pop(_SAVE, None)
        for hook in attachment.hooks:
            hook.remove()
        if attachment.gain is not None:
            del model.anyseq_gain
    return attachment, sites


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


def _refuse_output_attentions(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    # Some models keep this from their attention layers, and would then return an empty tuple.
    if kwargs.get("output_attentions"):
        raise InvalidArgument(
            f"output_attentions=True: {type(module).__name__} runs on anyseq.attention, which "
            "keeps no N x M weights; call anyseq.hf.restore(model) and use 'eager' to see them"
        )
