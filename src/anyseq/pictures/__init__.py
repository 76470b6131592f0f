"""Pictures: matplotlib figures of things. The lower floors know nothing of plotting."""

from anyseq.pictures.show import show

__all__ = ["show"]
