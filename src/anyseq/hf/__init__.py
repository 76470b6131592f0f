"""Hugging Face: put a pattern and a URPE gain on a loaded model."""

from importlib.util import find_spec

from anyseq.errors import MissingExtra

if find_spec("transformers") is None:
    raise MissingExtra('anyseq.hf needs transformers: pip install "anyseq[hf]"')

from anyseq.hf.attach import restore, use

__all__ = ["restore", "use"]
