"""Methods: each turns an Ask into a Recipe, or refuses with the reason."""

from collections.abc import Callable

from anyseq.construct.methods import boltzmann, fit, gather, partition, yun
from anyseq.construct.methods import sum as sums
from anyseq.construct.methods.recipe import Recipe
from anyseq.construct.request.ask import Ask

METHODS: dict[str, Callable[[Ask], Recipe]] = {
    boltzmann.NAME: boltzmann.recipe,
    gather.NAME: gather.recipe,
    partition.NAME: partition.recipe,
    sums.NAME: sums.recipe,
    yun.NAME: yun.recipe,
    fit.NAME: fit.recipe,
}

BY_NAME_ONLY = {partition.NAME: "since its memory tokens are not part of the design"}
"""Methods that "auto" does not choose, and why."""

__all__ = ["BY_NAME_ONLY", "METHODS"]
