"""Method "fit": exact routing, then a feed-forward net fitted to f by sampling. Nothing is proved.

    router           1 attention layer: every token holds the whole sequence x in slots, exactly
    blocks           residual ReLU layers on the slots, the same in every token, trained on samples
                     of f (see relu_net.py for the net and train.py for the training)
    selector         every token keeps its own output, clipped to the range that f was seen in

For domains of many dimensions, where grids are hopeless. Its error is measured on random inputs
that the training never saw, so it speaks of averages only: the mean absolute error (norm="mean") or
an L^p norm. Of the worst input samples say nothing, and the sup norm is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from anyseq.base import Progress, power_of_two_at_least
from anyseq.construct import needs
from anyseq.construct.ask import Ask, Construction
from anyseq.construct.error import SUP, Term
from anyseq.construct.gadgets import route, select_clipped
from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.construct.relu_net import FittedNet, NetShape
from anyseq.construct.target import Target
from anyseq.construct.train import BATCH, STEPS, train
from anyseq.errors import CannotApproximate
from anyseq.nn import Layers, Stack, StackShape
from anyseq.positions import Absolute

NAME = "fit"

_MOST_AXES = 64  # further it has not been tried
_BLOCKS, _MOST_BLOCKS = 3, 8
_HIDDEN = 256
_LEAST_BODY = 64

# Seconds on two cores: six operations per weight and input, and what a step costs besides.
_SECONDS_PER_OPERATION = 2.5e-11
_SECONDS_PER_STEP = 2e-3


def recipe(ask: Ask) -> FitRecipe:
    """The network to fit; whether it will meet the tolerance is not known before."""
    needs.dense_softmax(ask.design)
    needs.plain_blocks(ask.design)
    if not isinstance(ask.design.position, Absolute):
        raise CannotApproximate("it needs absolute positions, to know which token is which")
    if ask.norm == SUP:
        raise CannotApproximate(
            "samples say nothing about the worst input; ask for the norm 'mean' or 'lp'"
        )
    if ask.axes > _MOST_AXES:
        raise CannotApproximate(
            f"it is for at most {_MOST_AXES} dimensions (tokens times features), these are "
            f"{ask.axes}"
        )
    return FitRecipe(ask)


@dataclass(frozen=True)
class FitRecipe:
    """The network, before it is fitted: no grid, no values of f, no proved error."""

    ask: Ask
    log_steps: int = 0
    cells: int = 0
    method: str = NAME
    notes: tuple[str, ...] = ()
    id_bits: None = None
    terms: tuple[Term, ...] = ()
    pointwise: float = float("inf")
    exceptional: float = 0.0

    @property
    def net(self) -> NetShape:
        """The net to train; a design of fixed depth says how many blocks."""
        ask, depth = self.ask, self.ask.design.depth
        return NetShape(
            axes=ask.axes,
            body=max(_LEAST_BODY, 2 * ask.axes),
            hidden=_HIDDEN,
            blocks=_BLOCKS if depth is None else min(max(depth - 2, 1), _MOST_BLOCKS),
            outputs=ask.entries,
        )

    @property
    def seconds(self) -> float:
        """A rough guide to the time of all steps; it stops as soon as the tolerance is met."""
        operations = 6 * self.net.parameters * BATCH
        return STEPS * (operations * _SECONDS_PER_OPERATION + _SECONDS_PER_STEP)

    @property
    def _position_at(self) -> int:
        return max(self.ask.features, self.ask.out_features)

    @property
    def _body_at(self) -> int:
        return self._position_at + self.ask.design.tokens

    @property
    def _values_at(self) -> int:
        return self._body_at + self.net.body

    @cached_property
    def shape(self) -> StackShape:
        """Features: input/output | positions (n) | body, its first D the slots | values."""
        ask, net = self.ask, self.net
        layers = net.blocks + 2
        return StackShape(
            tokens=ask.design.tokens,
            in_features=ask.features,
            out_features=ask.out_features,
            width=self._values_at + ask.entries,
            heads=ask.design.tokens,
            head_dim=ask.features,
            hidden=max(net.hidden, 2 * ask.features, 2 * ask.entries),
            layers=layers,
            attention_layers=1,
            feedforward_layers=layers,
            positions=True,
        )

    def build(self, target: Target, progress: Progress) -> Construction:
        ask = self.ask
        trained = train(target, self.net, ask, progress)
        if trained.error > ask.tol:
            raise CannotApproximate(
                f"{NAME}: after {trained.steps:,} steps the best error on held-out inputs is "
                f"{trained.error:.4g}, and tol={ask.tol:g} was asked"
            )
        bound = power_of_two_at_least(2 * trained.largest) if trained.largest else 1.0
        fused = FittedNet(ask.design.tokens, bound, **trained.weights)
        return Construction(
            fused,
            lambda: self._model(fused),
            trained.largest,
            {
                "steps": f"{trained.steps:,}",
                "samples of f": f"{trained.steps * BATCH:,}",
                "seed": str(ask.seed),
            },
        )

    def _model(self, fused: FittedNet) -> Stack:
        ask, width = self.ask, self.shape.width
        tokens, position_at = ask.design.tokens, self._position_at
        position = torch.zeros(tokens, width, dtype=torch.float64)
        position[:, position_at : self._body_at] = torch.eye(tokens, dtype=torch.float64)
        runs = [
            route(
                tokens=tokens,
                features=ask.features,
                width=width,
                position_at=position_at,
                slots_at=self._body_at,
            ),
            self._blocks(fused),
            select_clipped(
                tokens=tokens,
                out_features=ask.out_features,
                width=width,
                position_at=position_at,
                values_at=self._values_at,
                bound=fused.bound,
            ),
        ]
        return Stack.of(
            ask.design,
            runs,
            in_features=ask.features,
            out_features=ask.out_features,
            position=position,
        )

    def _blocks(self, fused: FittedNet) -> Layers:
        """The trained numbers in their places; the last block writes the values."""
        net = self.net
        layers = blank_feed_forward(net.blocks, net.hidden, self.shape.width)
        body = slice(self._body_at, self._values_at)
        values = slice(self._values_at, self._values_at + net.outputs)
        layers.up_weight[:, :, body] = fused.up_weight
        layers.up_bias[:] = fused.up_bias
        layers.down_weight[:-1, body] = fused.down_weight
        layers.down_bias[:-1, body] = fused.down_bias
        layers.down_weight[-1, values] = fused.out_weight
        layers.down_bias[-1, values] = fused.out_bias
        return Layers(feedforward=layers)
