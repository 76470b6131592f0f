"""Hugging Face: put a pattern and a URPE gain on a loaded model, and take it off."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any
from warnings import warn

from anyseq.errors import MissingExtra

if find_spec("transformers") is None:
    raise MissingExtra('anyseq.hf needs transformers: pip install "anyseq[hf]"')

from anyseq.hf.attach import has_gain, patterns_on, restore, use
from anyseq.hf.attend import NAME
from anyseq.hf.hub import HubTransformer
from anyseq.hf.load import from_pretrained, load

__all__ = [
    "NAME",
    "HubTransformer",
    "from_pretrained",
    "has_gain",
    "load",
    "patterns_on",
    "restore",
    "use",
]

_MOVED = {"Reading": "Reading", "read_config": "read"}


def __getattr__(name: str) -> Any:
    """Names that moved to `anyseq`, for one release more."""
    if name not in _MOVED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn(f"anyseq.hf.{name} is anyseq.{_MOVED[name]} now", DeprecationWarning, stacklevel=2)
    return getattr(import_module("anyseq.models"), _MOVED[name])
