"""Wrappers around a model: adapters, compilers, copies for many devices."""

from __future__ import annotations

from typing import Any

import torch
from transformers import PreTrainedModel

from anyseq.errors import InvalidArgument


def unwrapped(model: Any) -> PreTrainedModel:
    """The Hugging Face model inside: of torch.compile's OptimizedModule, peft's PeftModel, DDP's
    and others' `.module`, in any order."""
    inner = model
    while not isinstance(inner, PreTrainedModel):
        if is_adapted(inner):
            further = inner.get_base_model()
        else:
            further = getattr(inner, "_orig_mod", None) or getattr(inner, "module", None)
        if not isinstance(further, torch.nn.Module) or further is inner:
            raise InvalidArgument(
                f"model={type(model).__name__}: expected a transformers.PreTrainedModel, or one "
                "inside a PeftModel, a compiled module or a wrapper with .module"
            )
        inner = further
    return inner


def is_adapted(model: Any) -> bool:
    """Whether it is a PeftModel; peft need not be installed."""
    return isinstance(model, torch.nn.Module) and hasattr(model, "get_base_model")


def in_adapters(model: Any) -> bool:
    """Whether a PeftModel is around the model, or around a wrapper of it."""
    while model is not None and not isinstance(model, PreTrainedModel):
        if is_adapted(model):
            return True
        model = getattr(model, "_orig_mod", None) or getattr(model, "module", None)
    return False
