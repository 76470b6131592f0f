"""An independent checker of a network, from its weights, its table and the facts claimed alone.

Nothing here knows how the network was made. What it computes is shown on *regions* on which it is
one affine function, or constant: a simplex of a grid, a cell off its ramps, the whole cube. What
cannot be read is run; what is run at some inputs only is said to be sampled. The error of the
function that is found is derived again, and compared with the claim. The look-up that stands for
the network is run beside it at some inputs. What is not checked is said to be skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

from anyseq.nn import Stack
from anyseq.patterns import Full
from anyseq.positions import Absolute, NoPosition
from anyseq.probability import Softmax
from anyseq.verify.balls import balls_agree, random_inputs
from anyseq.verify.boxes import boxes_error, hats_at, hats_rounding
from anyseq.verify.cells import cells_network
from anyseq.verify.constants import interpolation, values_fit
from anyseq.verify.facts import Facts
from anyseq.verify.forms import Front, front
from anyseq.verify.grids import grids_network
from anyseq.verify.memory import memory_network
from anyseq.verify.ridges import ridges_network
from anyseq.verify.simplices import Grid, interpolates, table_rounding
from anyseq.verify.sizes import layers_of, sizes_fit
from anyseq.verify.terms import Found, Terms, measure_holds, spread, table_fits, terms_hold
from anyseq.verify.verdict import Check, Disagreement, Skipped, Tensors, Verification, Weights

_TRIED = 256
_AGREE = 1e-9  # as is promised of a network and its look-up


class LookUp(Protocol):
    """What stands for the network at inputs x (batch, tokens, features)."""

    def covers(self, x: torch.Tensor) -> torch.Tensor:
        """(batch,) bool: where it does."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, out_features)."""


def verify(facts: Facts, *, network: Stack, table: Tensors, look_up: LookUp) -> Verification:
    """Check the network, its look-up, its error, and some inputs in ball arithmetic.

    If the sizes claimed are not those of the tensors, it stops there. So its work is bounded by the
    size of the files, whatever they claim: it grows with the square of their size at most, and what
    would be more (all simplices of a grid, all sequences of cells) is sampled.
    """
    looks = _Looks(facts, network, table)
    if not looks.at("sizes", lambda: sizes_fit(facts, network, table)):
        return Verification(tuple(looks.checks))
    looks.at("layers", lambda: layers_of(facts, network))
    if facts.parts in ("simplices", "boxes", "ridges"):
        looks.at("front", looks.front)
    looks.at("network", looks.network)
    looks.at("look-up", lambda: looks.tried(look_up))
    if (found := looks.found) is not None:
        looks.at("error", lambda: terms_hold(facts, found.error))
        looks.at("measure", lambda: measure_holds(facts, found.exceptional))
        looks.at("balls", lambda: looks.balls(found))
    return Verification(tuple(looks.checks))


class _Looks:
    """The checks so far, and what they have found for those to come."""

    def __init__(self, facts: Facts, network: Stack, table: Tensors) -> None:
        self.facts, self.stack = facts, network
        self.table = {name: tensor.detach().numpy() for name, tensor in table.items()}
        self.net = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
        self.checks: list[Check] = []
        self.before: Front | None = None
        self.found: Found | None = None

    def at(self, name: str, look: Callable[[], str]) -> bool:
        """Whether the check found nothing wrong."""
        self.checks.append(Check.of(name, look))
        return self.checks[-1].passed is not False

    def front(self) -> str:
        self.before = front(self.facts, self.stack, self.net)
        return self.before.text

    def network(self) -> str:
        parts = (self.facts, self.stack, self.net, self.table)
        if self.facts.parts in ("simplices", "boxes", "ridges"):
            if self.before is None:
                raise Skipped("it is not known what the last layers read")
            if self.facts.parts == "ridges":
                self.found = ridges_network(self.facts, self.net, self.table, self.before)
            else:
                self.found = _interpolant(self.facts, self.net, self.table, self.before)
        else:
            look = {"cells": cells_network, "grids": grids_network, "centres": memory_network}
            if self.facts.parts not in look:
                raise Disagreement(f"there is no independent checker for {self.facts.parts!r}")
            self.found = look[self.facts.parts](*parts)
        return self.found.text

    def tried(self, look_up: LookUp) -> str:
        """Random inputs."""
        shape = (_TRIED, self.facts.tokens, self.facts.features)
        inputs = torch.from_numpy(random_inputs(shape, self.found.mean if self.found else None))
        with torch.no_grad():
            inputs = inputs[look_up.covers(inputs)]
            if not len(inputs):
                raise Skipped(f"it covers none of {_TRIED} random inputs")
            apart = float((self.stack(inputs) - look_up(inputs)).abs().max())
        if not apart <= _AGREE * max(1.0, self.facts.bound):
            raise Disagreement(f"network and look-up are {apart:.2g} apart")
        return (
            f"SAMPLED, not proved: at {len(inputs)} random inputs off the network by at most "
            f"{apart:.2g}"
        )

    def balls(self, found: Found) -> str:
        design = self.stack.design
        full = design.cycle == (Full(),) and isinstance(design.probability, Softmax)
        if self.facts.parts == "ridges":
            raise Skipped("balls do not run through one wide layer")
        if not full or not isinstance(design.position, Absolute | NoPosition) or design.sinks:
            raise Skipped("balls run only through dense softmax attention with nothing inside it")
        size = self.stack.shape.head_dim
        return balls_agree(self.facts, self.net, self.table, found, size)


def _interpolant(facts: Facts, net: Weights, table: Weights, before: Front) -> Found:
    """Of the values at the nodes of a grid, or of those of boxes of several sizes."""
    boxes, values = table.get("boxes"), table["values"]
    grid = Grid.of(facts, net, boxes)
    at_nodes = values[grid.nodes] if boxes is None else hats_at(facts, table, grid.x)
    text, off = interpolates(facts, net, at_nodes, grid, before)
    off += table_rounding(facts, values) if boxes is None else hats_rounding(facts, table)

    def error() -> Terms:
        if boxes is None:
            table_fits(facts, values, off)
            values_fit(facts, values.reshape(*[facts.steps + 1] * facts.axes, -1), 2 * off)
        between = interpolation(facts) if boxes is None else boxes_error(facts, table, off)
        terms = {"interpolation": between, "rounding": off}
        return {(name, "cells"): value * spread(facts) for name, value in terms.items()}

    return Found(text, error, off)
