"""Methods: each turns an Ask into a Recipe, or refuses with the reason."""

from collections.abc import Callable

from anyseq.construct.ask import Ask, Recipe
from anyseq.construct.methods import boltzmann, gather, yun
from anyseq.construct.methods import sum as sums

METHODS: dict[str, Callable[[Ask], Recipe]] = {
    boltzmann.NAME: boltzmann.recipe,
    gather.NAME: gather.recipe,
    sums.NAME: sums.recipe,
    yun.NAME: yun.recipe,
}

__all__ = ["METHODS"]
