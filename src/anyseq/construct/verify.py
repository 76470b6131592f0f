"""A second opinion on a constructed network, from the network and the claim alone.

What is read shares no code with the methods: this file and the other verify_*.py read the weights,
show what function those compute, derive the error of that function again and compare it with the
claim. What cannot be read is run at some inputs, and the check says that it was sampled; what is
not looked at is said to be skipped. The look-up, which the methods share, is run beside the network
at some inputs, whatever the method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from anyseq.base import json_sha256
from anyseq.construct.claim import Claim
from anyseq.construct.fused import Fused
from anyseq.construct.needs import plain_attention
from anyseq.construct.verification import Check, Tensors, Verification, digest
from anyseq.construct.verify_balls import Mean, balls_agree, random_inputs
from anyseq.construct.verify_boltzmann import boltzmann_network
from anyseq.construct.verify_cells import cells_network
from anyseq.construct.verify_design import layers_of
from anyseq.construct.verify_front import Front, read_front, readable, run_front
from anyseq.construct.verify_hats import boxes_error, hats_network
from anyseq.construct.verify_kuhn import Grid, kuhn_network
from anyseq.construct.verify_multisets import values_fit_lipschitz, with_repeats
from anyseq.construct.verify_partition import partition_network
from anyseq.construct.verify_ridges import States, ridges_error, ridges_network, sampled_states
from anyseq.construct.verify_runs import cells_run, places_run
from anyseq.construct.verify_sum import sum_network
from anyseq.construct.verify_terms import (
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
    facts: Mapping[str, Any],
    order: Sequence[int] | None,
    weights_sha256: str,
    table_sha256: str,
    facts_sha256: str,
) -> Verification:
    """Look at the tensors, the network, its error, and at some inputs in ball arithmetic.

    look_up: what `table` belongs to. facts: what else than tensors the result consists of.
    order: what the look-up of "yun" thinks positions add to the tokens; None for other methods.
    """
    looks = _Looks(claim, network, table)
    looks.at("weights", lambda: _same(digest(network.state_dict()), weights_sha256))
    looks.at("table", lambda: _same(_numbers(table), table_sha256))
    looks.at("facts", lambda: _same(json_sha256(facts), facts_sha256))
    looks.at("layers", lambda: layers_of(network, memory=claim.method == "partition"))
    if claim.method == "gather" and "knots" in table:
        good = looks.at("front", looks.states) and looks.at("network", looks.ridges)
    elif claim.method == "gather":
        good = looks.at("front", looks.front) and looks.at("network", looks.interpolates)
    elif claim.method == "yun":
        places = "" if claim.dense else "places"
        good = (not places or looks.at(places, lambda: places_run(claim, network, order))) and (
            looks.at("network", lambda: looks.cells(order))
        )
    elif claim.method == "boltzmann":
        good = looks.at("network", looks.rounds)
    elif claim.method in ("sum", "partition"):
        good = looks.at("network", looks.blends)
    else:
        why = f'there is no second opinion on method "{claim.method}"'
        return Verification((*looks.checks, Check("network", False, why)))
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
        self._known: Tensors | None = None  # of f, where a table holds more than that

    def at(self, name: str, look: Callable[[], str]) -> bool:
        """Whether the look found nothing wrong."""
        self.checks.append(_check(name, look))
        return self.checks[-1].passed is not False

    def tried(self, look_up: Fused) -> str:
        """Random inputs; on a ramp, which must be that of the weights, the look-up does not
        speak."""
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

    def rounds(self) -> str:
        text, self.measured, self._known = boltzmann_network(
            self.claim, self.network, self.net, self.table
        )
        return text

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

    def blends(self) -> str:
        look = sum_network if self.claim.method == "sum" else partition_network
        found = look(self.claim, self.network, self.net, self.table)
        text, self.measured, self._mean = found
        return text

    @property
    def _adaptive(self) -> bool:
        """Whether hats have several sizes."""
        return "boxes" in self.table

    def error(self) -> str:
        claim, measured = self.claim, self.measured
        table = self.table if self._known is None else self._known
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

    def cells(self, order: Sequence[int] | None) -> str:
        if self.claim.dense:
            text, self.measured = cells_network(self.claim, self.net, self.table)
            places = [token * self.claim.positions for token in range(self.claim.tokens)]
            if list(order or ()) != places:
                raise Disagreement(f"the look-up takes the tokens to start from {order}")
        else:
            text, self.measured = cells_run(self.claim, self.network, self.net, self.table)
        return text

    def balls(self) -> str:
        if self._states is not None:
            raise Skipped("balls do not run through one wide layer")
        design = self.network.design
        dense = self.claim.dense and "constant" not in self.net
        if self.claim.method == "boltzmann":  # which sees BOS as it sees tokens
            dense = plain_attention(replace(design, bos=False))
        if not dense:
            raise Skipped("balls run only through dense softmax attention with nothing inside it")
        size = self.network.shape.head_dim
        return balls_agree(self.claim, self.net, self.table, self.measured, size, self._mean)


def _check(name: str, look: Callable[[], str]) -> Check:
    """A look returns what it saw, or raises Disagreement or Skipped."""
    try:
        return Check(name, True, look())
    except Disagreement as problem:
        return Check(name, False, str(problem))
    except Skipped as reason:
        return Check(name, None, str(reason))
    except (LookupError, ValueError, ArithmeticError, TypeError, RuntimeError) as problem:
        why = f"tensors and claim do not fit together: {type(problem).__name__}: {problem}"
        return Check(name, False, why)


def _numbers(table: Tensors) -> str:
    """The SHA-256 of a table of numbers; only constants of boxes may be infinite."""
    for name, tensor in table.items():
        if name != "constants" and not bool(tensor.isfinite().all()):
            raise Disagreement(f"{name}: a number is infinite, or none")
    return digest(table)


def _same(found: str, recorded: str) -> str:
    if found != recorded:
        raise Disagreement(f"SHA-256 {found[:12]}..., the certificate speaks of {recorded[:12]}...")
    return f"SHA-256 {found[:12]}..."
