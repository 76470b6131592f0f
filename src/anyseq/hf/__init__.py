"""Hugging Face: put a pattern and a URPE gain on a loaded model; read a config as a Design."""

from importlib.util import find_spec

from anyseq.errors import MissingExtra

if find_spec("transformers") is None:
    raise MissingExtra('anyseq.hf needs transformers: pip install "anyseq[hf]"')

from anyseq.hf.attach import load, restore, use
from anyseq.hf.attend import NAME
from anyseq.hf.read import Reading, read_config

__all__ = ["Reading", "load", "read_config", "restore", "use"]
