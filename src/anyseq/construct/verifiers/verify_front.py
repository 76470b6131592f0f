"""Method "gather", up to the layer after which every token has its position and the sequence.

The state wanted, in this order of features:

    zeros for the output | a 1 at the own position, BOS's first | x_j in slot j, or 0 | zeros

With absolute positions this is proved from the weights (`read_front`), layer by layer, on a Kuhn
simplex whose corners are nodes: let the tokens be affine there.

1. If queries and keys are the same at all corners then scores are constant; if one of all keys of
   a token leads by more than 745.2, all others weigh exactly 0 by softmax and top-k, and
   also by hardmax, sparsemax and entmax15, which need less. So the layer is affine.
2. If no unit is positive at one corner and negative at another, it is on throughout or off
   throughout: affine.
3. At nodes all numbers are multiples of δ and all weights whole, with sums below 2^53 δ: float64
   makes no error, in any order, so signs are exact.

Other positions come from random heads, sines or gains. There the layers are run (`run_front`) at
some inputs, and their outputs are checked: a sample, not a proof.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch

from anyseq.construct.verifiers.claim import Claim
from anyseq.construct.verifiers.verification import fresh
from anyseq.construct.verifiers.verify_terms import Disagreement
from anyseq.nn import Stack
from anyseq.positions import URPE, Sinusoidal

_LEAD = 746.0  # exp(-745.2) is 0 in float64
_UNIT = 2.0**-53
_RANDOM = 256  # inputs of a sample, besides corners of the cube

Weights = dict[str, np.ndarray]


@dataclass(frozen=True)
class Front:
    """layers: how many come before the state wanted. states: (nodes, tokens, width), that state at
    the nodes. off: what a slot may be off, where it was only sampled. text: what was found."""

    layers: int
    states: np.ndarray
    off: float
    text: str


@dataclass(frozen=True)
class Layout:
    """Which features are which."""

    tokens: int
    features: int
    bos: int
    places_at: int

    @classmethod
    def of(cls, claim: Claim, network: Stack) -> Layout:
        wide = max(claim.features, claim.out_features)
        return cls(claim.tokens, claim.features, int(network.shape.bos), wide)

    @property
    def slots_at(self) -> int:
        return self.places_at + self.tokens + self.bos

    def held(self, state: np.ndarray, x: np.ndarray, off: float = 0.0) -> np.ndarray | None:
        """(tokens, D): which slots hold x; None if it is not the state wanted. state (inputs,
        tokens, width), x (inputs, D)."""
        last = self.slots_at + x.shape[1]
        place = np.eye(self.tokens, self.tokens + self.bos, self.bos)
        slots = state[..., self.slots_at : last]
        if state[..., : self.places_at].any() or state[..., last:].any():
            return None
        if (state[..., self.places_at : self.slots_at] != place).any():
            return None
        holds = np.asarray((np.abs(slots - x[:, None]) <= off).all(0))
        return holds if (holds | (slots == 0).all(0)).all() else None

    def wanted(self, x: np.ndarray, holds: np.ndarray, width: int) -> np.ndarray:
        """The state in which these slots hold x."""
        state = np.zeros((len(x), self.tokens, width))
        state[..., self.places_at : self.slots_at] = np.eye(
            self.tokens, self.tokens + self.bos, self.bos
        )
        state[..., self.slots_at : self.slots_at + x.shape[1]] = x[:, None] * holds
        return state


def readable(claim: Claim, network: Stack) -> bool:
    """Whether there is nothing in the front but vectors of positions, and scores."""
    shape = network.shape
    inside = shape.inside or shape.gains or isinstance(network.design.position, Sinusoidal)
    return not inside and (shape.positions or claim.tokens + shape.bos == 1)


def read_front(
    claim: Claim, network: Stack, net: Weights, x: np.ndarray, corners: np.ndarray
) -> Front:
    """Proved. x (nodes, D), corners (simplices, D+1): their nodes."""
    layout, halves = Layout.of(claim, network), net["halves"]
    state = np.zeros((len(x), claim.tokens + layout.bos, network.shape.width))
    state[:, layout.bos :, : claim.features] = x.reshape(len(x), claim.tokens, -1)
    state[:, layout.bos :] += net.get("constant", np.zeros(1))
    state[:, : layout.bos] += net.get("bos", np.zeros(1))
    state += net.get("position", np.zeros(1))
    last = int(np.nonzero(halves[:, 0] >= 0)[0].max())
    for layer, (attention, feedforward) in enumerate(halves.tolist()):
        if layer > last:
            holds = layout.held(state[:, layout.bos :], x)
            if holds is not None:
                text = (
                    f"layers up to {layer} put x into slots, exactly, on all {len(corners):,} "
                    "simplices checked (read from the weights)"
                )
                return Front(layer, state[:, layout.bos :], 0.0, text)
        if attention >= 0:
            state = state + _attend(claim, network, net, attention, layer, state)
        if feedforward >= 0:
            up, down = net["up_weight"][feedforward], net["down_weight"][feedforward]
            pre = exact(state, up, net["up_bias"][feedforward], claim.steps)
            for vertex in range(state.shape[1]):
                keeps_signs(pre[:, vertex], corners, feedforward)
            more = exact(np.maximum(pre, 0.0), down, net["down_bias"][feedforward], claim.steps)
            state = state + more
    raise Disagreement("no layer after which every token has its position and x, and nothing else")


def _attend(
    claim: Claim, network: Stack, net: Weights, row: int, layer: int, state: np.ndarray
) -> np.ndarray:
    vertices, size = state.shape[1], network.shape.head_dim
    cycle = network.design.cycle
    masks = [part.mask(vertices).numpy() for part in cycle[layer % len(cycle)].heads()]
    query = exact(state, net["q_weight"][row], net["q_bias"][row], claim.steps)
    key, value = (
        exact(state, net[name][row], 0.0, claim.steps) for name in ("k_weight", "v_weight")
    )
    mixed = np.zeros_like(value)
    for head in range(network.shape.heads):
        part = slice(head * size, (head + 1) * size)
        if not (value[..., part].any() and net["o_weight"][row][:, part].any()):
            continue  # it adds 0, whatever its weights
        if (query[..., part] != query[:1, :, part]).any() or (
            key[..., part] != key[:1, :, part]
        ).any():
            raise Disagreement(f"attention in layer {layer}: its scores depend on the input")
        score = exact(query[0, :, part], key[0, :, part], 0.0, claim.steps)
        score = np.where(masks[head % len(masks)], score, -np.inf)
        sink = net["sink"][row, head] if "sink" in net else -np.inf
        score = np.concatenate([score, np.full((vertices, 1), sink)], axis=1)
        second, first = np.sort(score, axis=1)[:, -2:].T
        if (first[first > -np.inf] - second[first > -np.inf] < _LEAD).any():
            raise Disagreement(f"attention in layer {layer}: in some head no token leads by enough")
        winner = score.argmax(1)
        wins = (first > -np.inf) & (winner < vertices)  # else the sink, or nobody is seen: 0
        mixed[..., part] = value[:, winner % vertices, part] * wins[:, None]
    return exact(mixed, net["o_weight"][row], 0.0, claim.steps)


def run_front(claim: Claim, network: Stack, net: Weights, x: np.ndarray) -> Front:
    """Sampled, by the layers themselves. x (nodes, D): where the state is wanted."""
    layout, halves = Layout.of(claim, network), net["halves"]
    off = 4 * _UNIT if isinstance(network.design.position, URPE | Sinusoidal) else 0.0
    axes = x.shape[1]
    rng = fresh()
    cube = np.array(list(product((0.0, 1.0), repeat=axes))[:_RANDOM])
    inputs = np.concatenate([cube, rng.permutation(x)[:_RANDOM], rng.random((_RANDOM, axes))])
    layers = int(np.nonzero(halves[:, 0] >= 0)[0].max()) + 1
    few = inputs[-4:]
    state = _run(claim, network, layers, few)
    while layout.held(state, few, off) is None:
        if layers == len(halves):
            raise Disagreement(
                "no layer after which tokens have their positions and x, and nothing else"
            )
        row = int(halves[layers, 1])
        if row >= 0:
            pre = state @ net["up_weight"][row].T + net["up_bias"][row]
            more = np.maximum(pre, 0.0) @ net["down_weight"][row].T + net["down_bias"][row]
            state = state + more
        layers += 1
    holds = layout.held(_run(claim, network, layers, inputs), inputs, off)
    if holds is None:
        raise Disagreement(f"after {layers} layers slots do not hold x at some of the inputs tried")
    text = (
        f"SAMPLED, not proved: {layers} layers, run at {len(inputs)} inputs, give exact places and "
        f"slots {'within 4·2^-53' if off else 'exactly'}"
    )
    return Front(layers, layout.wanted(x, holds, network.shape.width), off, text)


def _run(claim: Claim, network: Stack, layers: int, x: np.ndarray) -> np.ndarray:
    batch = torch.from_numpy(x.reshape(len(x), claim.tokens, claim.features))
    with torch.no_grad():
        return np.asarray(first_layers(network, layers)(batch).numpy())


def first_layers(network: Stack, layers: int) -> Stack:
    """The network cut off after some layers; its output is the whole state."""
    tensors = dict(network.state_dict())
    halves = tensors["halves"][:layers]
    rows = [int((halves[:, half] >= 0).sum()) for half in (0, 1)]
    shape = replace(
        network.shape,
        out_features=network.shape.width,
        layers=layers,
        attention_layers=rows[0],
        feedforward_layers=rows[1],
    )
    for name, size in shape.tensors().items():
        tensors[name] = tensors[name][: size[0]]
    return Stack(network.design, shape, tensors | {"halves": halves})


def keeps_signs(pre: np.ndarray, corners: np.ndarray, layer: int) -> None:
    """No unit may be positive at one corner of a simplex, and negative at another."""
    if bends(pre, corners).any():
        raise Disagreement(f"feed-forward layer {layer}: a unit changes sign within a simplex")


def bends(pre: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """(units,): how far ReLU(pre) may be from affine on a simplex, pre (nodes, units) being affine.

    With p = max pre and q = max(-pre) at its corners: ReLU(pre) and the interpolant of its values
    there both lie between pre and pre + q, and between 0 and p, so they are min(p, q) apart at most
    if both are positive, and equal otherwise.
    """
    both = (pre > 0).any(0) & (pre < 0).any(0)  # only these units need a closer look
    found = np.zeros(pre.shape[1])
    above = below = pre[corners[:, 0]][:, both]
    for corner in range(1, corners.shape[1]):
        here = pre[corners[:, corner]][:, both]
        above, below = np.maximum(above, here), np.minimum(below, here)
    found[both] = np.minimum(above, -below).clip(min=0.0).max(0, initial=0.0)
    return found


def exact(x: np.ndarray, weight: np.ndarray, shift: np.ndarray | float, steps: int) -> np.ndarray:
    """x W^T + shift, without rounding error: x holds multiples of 1/steps, W whole numbers."""
    if (weight != np.round(weight)).any() or (np.asarray(shift) != np.round(shift)).any():
        raise Disagreement("a weight that routes or interpolates is not a whole number")
    if (x * steps != np.round(x * steps)).any():
        raise Disagreement("at a node, a number is not a multiple of δ")
    reach = np.abs(x).max(initial=0.0) * np.abs(weight).sum(1).max(initial=0.0)
    if (reach + np.abs(shift).max(initial=0.0)) * steps >= 2.0**53:
        raise Disagreement("a sum is too large for float64 to be exact")
    return np.asarray(x @ weight.T + shift)
