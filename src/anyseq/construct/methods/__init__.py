"""Methods: each turns an Ask into a Recipe, or refuses with the reason."""

from collections.abc import Callable

from anyseq.construct.ask import Ask, Recipe
from anyseq.construct.methods import fit, gather, yun

METHODS: dict[str, Callable[[Ask], Recipe]] = {
    gather.NAME: gather.recipe,
    yun.NAME: yun.recipe,
    fit.NAME: fit.recipe,
}

__all__ = ["METHODS"]
