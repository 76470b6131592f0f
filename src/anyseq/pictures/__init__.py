"""Pictures: matplotlib figures of things. The lower floors know nothing of plotting."""

from importlib.util import find_spec

from anyseq.errors import MissingExtra

if find_spec("matplotlib") is None:
    raise MissingExtra('pictures need matplotlib: pip install "anyseq[plots]"')

from anyseq.pictures.animate import animate
from anyseq.pictures.animation import Animation
from anyseq.pictures.show import show
from anyseq.pictures.style import save

__all__ = ["Animation", "animate", "save", "show"]
