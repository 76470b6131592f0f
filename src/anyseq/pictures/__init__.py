"""Pictures: matplotlib figures of things. The lower floors know nothing of plotting."""

from anyseq.pictures.show import show
from anyseq.pictures.style import save

__all__ = ["save", "show"]
