"""Method "fit": exact routing, then a feed-forward net fitted to f by sampling. Nothing is proved.

    router           every token comes to hold the whole sequence x in slots: by 1 layer in plain
                     dense attention, by `anyseq.construct.gathering` in other designs
    blocks           residual ReLU layers on the slots, the same in every token, trained on samples
                     of f (see relu_net.py for the net and train.py for the training)
    selector         every token keeps its own output, clipped to the sampled range of f

For domains of many dimensions, where grids are hopeless. Its error is measured on random inputs not
used in training, so it covers averages only: the mean absolute error (norm="mean") or an L^p norm.
Samples say nothing about the worst input, so the sup norm is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from anyseq.base import Progress, power_of_two_at_least
from anyseq.construct.gadgets import route, select_clipped
from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.construct.gathering import Gathering, Heads, Room, gather, least_width
from anyseq.construct.methods.fit.train import BATCH, STEPS, train
from anyseq.construct.methods.recipe import Construction
from anyseq.construct.request import needs
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.error import SUP, Term
from anyseq.construct.request.target import Target
from anyseq.construct.tables.relu_net import FittedNet, NetShape
from anyseq.errors import CannotApproximate
from anyseq.nn import Layers, Stack, StackShape

NAME = "fit"

_MOST_AXES = 64  # further it has not been tried
_BLOCKS, _MOST_BLOCKS = 3, 8
_HIDDEN = 256
_LEAST_BODY = 64

# Seconds on two cores: six operations per weight and input, and what a step costs besides.
_SECONDS_PER_OPERATION = 2.5e-11
_SECONDS_PER_STEP = 2e-3


def recipe(ask: Ask) -> FitRecipe:
    """The network to fit; whether it will meet the tolerance is not known in advance."""
    needs.feed_forward(ask.design)
    if ask.norm == SUP:
        raise CannotApproximate(
            "samples say nothing about the worst input; use norm='mean' or norm='lp'"
        )
    if ask.axes > _MOST_AXES:
        raise CannotApproximate(
            f"it is for at most {_MOST_AXES} dimensions (tokens times features), these are "
            f"{ask.axes}"
        )
    if needs.gathering(ask) != "all":
        raise CannotApproximate(
            "it fits one net for all tokens, but here each token holds a different part"
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
        """The net to train; a design of fixed depth determines the number of blocks."""
        ask, depth = self.ask, self.ask.design.depth
        left = _BLOCKS if depth is None else depth - self.front.layers - 1
        return NetShape(
            axes=ask.axes,
            body=self._body,
            hidden=_HIDDEN,
            blocks=min(max(left, 1), _MOST_BLOCKS),
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
    def _body(self) -> int:
        return max(_LEAST_BODY, 2 * self.ask.axes)

    @property
    def _body_at(self) -> int:
        return self._position_at + self.ask.design.size

    @property
    def _values_at(self) -> int:
        return self._body_at + self._body

    @cached_property
    def room(self) -> Room:
        """Features: input/output | positions | body, its first D the slots | values."""
        ask, slots_at = self.ask, self._body_at
        return Room(
            tokens=ask.design.tokens,
            features=ask.features,
            width=max(
                self._values_at + ask.entries,
                least_width(ask.design, ask.features, slots_at, "all"),
            ),
            hidden=max(_HIDDEN, 2 * ask.features, 2 * ask.entries),
            position_at=self._position_at,
            slots_at=slots_at,
        )

    @cached_property
    def front(self) -> Gathering:
        """The layers before the net."""
        design, room = self.ask.design, self.room
        if not needs.plain_attention(design):
            return gather(design, room, "all")
        heads = Heads(design, period=1, tellers=0, count=room.tokens, size=room.features)
        router = route(
            tokens=room.tokens,
            features=room.features,
            width=room.width,
            position_at=room.position_at,
            slots_at=room.slots_at,
        )
        position = torch.zeros(room.tokens, room.width, dtype=torch.float64)
        position[:, room.position_at : room.slots_at] = torch.eye(room.tokens)
        return Gathering(heads, (router,), {"position": position})

    @cached_property
    def shape(self) -> StackShape:
        ask, front, rest = self.ask, self.front, self.net.blocks + 1
        return StackShape(
            tokens=ask.design.tokens,
            in_features=ask.features,
            out_features=ask.out_features,
            width=self.room.width,
            heads=front.heads.count,
            head_dim=front.heads.size,
            hidden=self.room.hidden,
            layers=ask.layers(front.layers + rest),
            attention_layers=front.attention_layers,
            feedforward_layers=front.feedforward_layers + rest,
            **front.kinds,
        )

    def build(self, target: Target, progress: Progress) -> Construction:
        ask = self.ask
        trained = train(target, self.net, ask, progress)
        if trained.error > ask.tol:
            raise CannotApproximate(
                f"{NAME}: after {trained.steps:,} steps the best error on held-out inputs is "
                f"{trained.error:.4g}, above tol={ask.tol:g}"
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
        ask = self.ask
        runs = [
            *self.front.runs,
            self._blocks(fused),
            select_clipped(
                tokens=ask.design.tokens,
                out_features=ask.out_features,
                width=self.room.width,
                position_at=self._position_at + ask.design.bos,
                values_at=self._values_at,
                bound=fused.bound,
            ),
        ]
        return Stack.of(
            ask.design,
            runs,
            in_features=ask.features,
            out_features=ask.out_features,
            **self.front.vectors,
        )

    def _blocks(self, fused: FittedNet) -> Layers:
        """The trained weights in their places; the last block writes the values."""
        net = self.net
        layers = blank_feed_forward(net.blocks, net.hidden, self.room.width)
        body = slice(self._body_at, self._values_at)
        values = slice(self._values_at, self._values_at + net.outputs)
        layers.up_weight[:, :, body] = fused.up_weight
        layers.up_bias[:] = fused.up_bias
        layers.down_weight[:-1, body] = fused.down_weight
        layers.down_bias[:-1, body] = fused.down_bias
        layers.down_weight[-1, values] = fused.out_weight
        layers.down_bias[-1, values] = fused.out_bias
        return Layers(feedforward=layers)
