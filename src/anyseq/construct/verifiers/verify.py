"""An independent checker of a constructed network, from the network and the claim alone.

This file and the other verify_*.py read the weights without any code of the methods, show what
function those compute, derive the error of that function again and compare it with the claim. What
cannot be read is run. Off the ramps all inputs in a cell are alike, so what is run at every
sequence of cells is as good as read; what is run at some inputs only is said to be sampled. The
look-up, which is the methods' own, is run beside the network at some inputs, whatever the method.
What is not checked is said to be skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from anyseq.construct.request.needs import plain_attention
from anyseq.construct.tables.fused import Fused
from anyseq.construct.verifiers.claim import Claim
from anyseq.construct.verifiers.verification import Check, Tensors, Verification
from anyseq.construct.verifiers.verify_balls import Mean, balls_agree, random_inputs
from anyseq.construct.verifiers.verify_boltzmann import boltzmann_network
from anyseq.construct.verifiers.verify_cells import cells_network
from anyseq.construct.verifiers.verify_design import layers_of, sizes_fit
from anyseq.construct.verifiers.verify_front import Front, read_front, readable, run_front
from anyseq.construct.verifiers.verify_hats import boxes_error, hats_network
from anyseq.construct.verifiers.verify_kuhn import Grid, kuhn_network
from anyseq.construct.verifiers.verify_multisets import values_fit_lipschitz, with_repeats
from anyseq.construct.verifiers.verify_partition import partition_network
from anyseq.construct.verifiers.verify_ridges import (
    States,
    ridges_error,
    ridges_network,
    sampled_states,
)
from anyseq.construct.verifiers.verify_runs import cells_run, places_run
from anyseq.construct.verifiers.verify_sum import sum_network
from anyseq.construct.verifiers.verify_terms import (
    Disagreement,
    Skipped,
    by_multisets,
    exceptions_hold,
    terms_hold,
)
from anyseq.nn import Stack

_TRIED = 256
_AGREE = 1e-9  # as `Approximation` promises of its two forms


def verify(
    claim: Claim,
    *,
    network: Stack,
    table: Tensors,
    look_up: Fused,
    order: Sequence[int] | None,
) -> Verification:
    """Check the network, its look-up, its error, and some inputs in ball arithmetic.

    If the sizes claimed are not those of the tensors, it stops there. So its work is bounded by the
    size of the files, whatever they claim: it grows with the square of their size at most, and what
    would be more (all simplices of a grid, all sequences of cells) is sampled.

    look_up: the look-up that `table` belongs to.
    order: what positions add to the tokens according to the look-up of "yun"; None for other
        methods.
    """
    looks = _Looks(claim, network, table)
    if not looks.at("sizes", lambda: sizes_fit(claim, network, table)):
        return Verification(tuple(looks.checks))
    looks.at("layers", lambda: layers_of(network, memory=claim.method == "partition"))
    good = all(looks.at(name, look) for name, look in looks.at_network(order).items())
    looks.at("look-up", lambda: looks.tried(look_up))
    if good:
        looks.at("error", looks.error)
        looks.at("measure", lambda: exceptions_hold(claim, looks.measured))
        looks.at("balls", looks.balls)
    return Verification(tuple(looks.checks))


class _Looks:
    """The checks so far, and what they have found for those to come."""

    def __init__(self, claim: Claim, network: Stack, table: Tensors) -> None:
        self.claim, self.network, self.table = claim, network, table
        self.net = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
        self.checks: list[Check] = []
        self.measured: dict[str, float] = {}
        self._gathered: tuple[Grid, Front] | None = None
        self._states: States | None = None
        self._mean: Mean | None = None
        self._known: Tensors = {}  # of f, where the table itself does not say it

    def at(self, name: str, look: Callable[[], str]) -> bool:
        """Whether the check found nothing wrong."""
        self.checks.append(_check(name, look))
        return self.checks[-1].passed is not False

    def at_network(self, order: Sequence[int] | None) -> dict[str, Callable[[], str]]:
        """The checks that together show what the network computes; the first that fails is the
        last."""
        method = self.claim.method
        if method == "gather" and "knots" in self.table:
            return {"front": self.states, "network": self.ridges}
        if method == "gather":
            return {"front": self.front, "network": self.interpolates}
        if method == "yun" and self.claim.dense:
            return {"network": partial(self.cells, order)}
        if method == "yun":
            places = partial(places_run, self.claim, self.network, order)
            return {"places": places, "network": self.runs}
        if method == "boltzmann":
            return {"network": self.rounds}
        if method in ("sum", "partition"):
            return {"network": self.blends}
        return {"network": self.no_opinion}

    def no_opinion(self) -> str:
        raise Disagreement(f'there is no independent checker for method "{self.claim.method}"')

    def tried(self, look_up: Fused) -> str:
        """Random inputs; on a ramp, which must be that of the weights, the look-up does not
        apply."""
        for name in self.measured.keys() & {"ramp", "end"}:
            if getattr(look_up, name) != self.measured[name]:
                raise Disagreement(
                    f"{name} {getattr(look_up, name):.6g}, that of the weights is "
                    f"{self.measured[name]:.6g}"
                )
        shape = (_TRIED, self.claim.tokens, self.claim.features)
        inputs = torch.from_numpy(random_inputs(shape, self._mean))
        with torch.no_grad():
            inputs = inputs[look_up.covers(inputs)]
            if not len(inputs):
                raise Skipped(f"it covers none of {_TRIED} random inputs")
            apart = float((self.network(inputs) - look_up(inputs)).abs().max())
        if not apart <= _AGREE * max(1.0, self.claim.bound):
            raise Disagreement(f"network and look-up are {apart:.2g} apart")
        return (
            f"SAMPLED, not proved: at {len(inputs)} random inputs off the network by at most "
            f"{apart:.2g}"
        )

    def front(self) -> str:
        claim, network, net = self.claim, self.network, self.net
        boxes = self.table["boxes"].numpy() if self._adaptive else None
        grid = Grid.of(claim, net, boxes)
        if readable(claim, network):
            front = read_front(claim, network, net, grid.x, grid.corners)
        else:
            front = run_front(claim, network, net, grid.x)
        self._gathered = grid, front
        return front.text

    def interpolates(self) -> str:
        assert self._gathered is not None
        look = hats_network if self._adaptive else kuhn_network
        text, self.measured = look(self.claim, self.network, self.net, self.table, *self._gathered)
        return text

    def states(self) -> str:
        self._states = sampled_states(self.claim, self.network, self.net)
        return self._states.text

    def ridges(self) -> str:
        assert self._states is not None
        text, self.measured = ridges_network(self.claim, self.net, self.table, self._states)
        return text

    def cells(self, order: Sequence[int] | None) -> str:
        text, self.measured, starts = cells_network(self.claim, self.net, self.table)
        if list(order or ()) != starts:
            raise Disagreement(f"the look-up takes the tokens to start from {order}")
        return text

    def runs(self) -> str:
        text, self.measured = cells_run(self.claim, self.network, self.net, self.table)
        return text

    def rounds(self) -> str:
        text, self.measured, self._known = boltzmann_network(
            self.claim, self.network, self.net, self.table
        )
        return text

    def blends(self) -> str:
        look = sum_network if self.claim.method == "sum" else partition_network
        text, self.measured, self._mean = look(self.claim, self.network, self.net, self.table)
        return text

    @property
    def _adaptive(self) -> bool:
        """Whether hats have several sizes."""
        return "boxes" in self.table

    def error(self) -> str:
        claim, table, measured = self.claim, {**self.table, **self._known}, self.measured
        if self._adaptive:
            interpolation = boxes_error(claim, table, measured["rounding"])
            measured = measured | {"interpolation": interpolation}
        if self._states is not None:
            measured = measured | ridges_error(claim, table, measured)
        text = terms_hold(claim, table, measured)
        if by_multisets(claim) and claim.method != "sum":  # which was looked at with its windows
            values = self.table["values"].numpy()
            if claim.method == "yun":
                values = with_repeats(claim, values)
            values_fit_lipschitz(claim, values)
        return text

    def balls(self) -> str:
        if self._states is not None:
            raise Skipped("balls do not run through one wide layer")
        if not plain_attention(replace(self.network.design, bos=False)):  # BOS is one more token
            raise Skipped("balls run only through dense softmax attention with nothing inside it")
        size = self.network.shape.head_dim
        return balls_agree(self.claim, self.net, self.table, self.measured, size, self._mean)


def _check(name: str, look: Callable[[], str]) -> Check:
    """A check returns what it found, or raises Disagreement or Skipped; what overflows is an error,
    as no comparison with NaN would be."""
    try:
        with np.errstate(all="raise", under="ignore"):
            return Check(name, True, look())
    except Disagreement as problem:
        return Check(name, False, str(problem))
    except Skipped as reason:
        return Check(name, None, str(reason))
    except (
        LookupError,
        ValueError,
        ArithmeticError,
        TypeError,
        RuntimeError,
        AttributeError,
    ) as problem:
        why = f"tensors and claim do not fit together: {type(problem).__name__}: {problem}"
        return Check(name, False, why)
