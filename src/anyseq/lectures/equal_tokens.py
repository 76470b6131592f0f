"""Lecture 2: on equal tokens RoPE's output is flat, whatever is trained, and URPE's rises to fit.

The task is to say at each of n equal tokens which one it is: w, w, ..., w in, 0, 1, ..., n - 1 out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure
from torch import nn

from anyseq.base import generator, seed_of, table
from anyseq.design import Design
from anyseq.lectures.slide import Slide
from anyseq.nn import Attention, Block, Transformer
from anyseq.ops import attention
from anyseq.pictures.style import COLOURS, INK, figure
from anyseq.positions import URPE, Position, Rotary
from anyseq.verdicts import check

TOKENS = 8
FLOOR = (TOKENS**2 - 1) / 12
"""The least mean squared error of a flat line, which is that of its best height, (n - 1)/2."""

POSITIONS: dict[str, Position] = {"RoPE": Rotary(), "URPE": URPE(Rotary())}
"""The two models differ in URPE's gain alone."""

_STEPS, _BATCH, _RATE = 300, 16, 1e-2


class Teller(nn.Module):
    """(batch, tokens, 1) -> (batch, tokens, 1): a Transformer between two linear maps, in float64,
    because rounding to float32 may tell equal tokens apart."""

    def __init__(self, position: Position, dim: int = 32) -> None:
        super().__init__()
        kind = torch.float64
        self.enter = nn.Linear(1, dim, dtype=kind)
        self.body = Transformer(Design(TOKENS, position=position), dim, 2, heads=4, dtype=kind)
        self.leave = nn.Linear(dim, 1, dtype=kind)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What it says at each token."""
        said: torch.Tensor = self.leave(self.body(self.enter(x)))
        return said


@dataclass(frozen=True, eq=False)
class Trained:
    """losses: the mean squared error at each step. line: what the model says at tokens 0, 1, ...
    row_sums: the attention weights of each token added up, for each head of the first layer."""

    model: Teller
    losses: list[float]
    line: list[float]
    row_sums: list[list[float]]


def train(position: Position, seed: int = 0) -> Trained:
    """Adam on sequences of one random number, repeated; the rate falls to 0."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Teller(position)
    optimiser = torch.optim.Adam(model.parameters(), lr=_RATE)
    falling = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, total_iters=_STEPS)
    rng, losses = generator(seed_of(seed, "words")), []
    target = torch.arange(TOKENS, dtype=torch.float64)[:, None]
    for _ in range(_STEPS):
        x = torch.rand(_BATCH, 1, 1, generator=rng, dtype=torch.float64)
        loss = (model(x.expand(-1, TOKENS, -1)) - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        falling.step()
        losses.append(loss.item())
    x = torch.full((1, TOKENS, 1), 0.5, dtype=torch.float64)
    with torch.no_grad():
        return Trained(model, losses, model(x).flatten().tolist(), row_sums(model, x).tolist())


def row_sums(model: Teller, x: torch.Tensor) -> torch.Tensor:
    """(heads, tokens): Σ_j of the attention weights of token i, after the gain if there is one, in
    the first layer; that is attention to values that are 1."""
    block = model.body.blocks[0]
    assert isinstance(block, Block)
    mixer = block.mixer
    assert isinstance(mixer, Attention)
    x = block.mixer_norm(model.enter(x))
    q, k = (
        mixer.position.turn(part(x).unflatten(2, (mixer.heads, -1)).transpose(1, 2), 0)
        for part in (mixer.q_proj, mixer.k_proj)
    )
    gain = None if model.body.gain is None else model.body.gain()
    return attention(q, k, torch.ones_like(k), gain=gain)[0, :, :, 0]


def line_table(runs: dict[str, Trained]) -> str:
    """What each model says at each token."""
    rows = [("wanted", *(f"{token}" for token in range(TOKENS)))]
    rows += [(name, *(f"{said:.3f}" for said in run.line)) for name, run in runs.items()]
    return table(("token", *(f"{token}" for token in range(TOKENS))), rows)


def loss_table(runs: dict[str, Trained]) -> str:
    """The learning curves, at a few steps."""
    steps = (1, 25, 50, 100, 200, _STEPS)
    rows = [
        (name, *(f"{run.losses[step - 1]:.4f}" for step in steps)) for name, run in runs.items()
    ]
    return table(("step", *map(str, steps)), rows)


def sums_table(runs: dict[str, Trained]) -> str:
    """The attention weights of each token added up, head by head."""
    rows = [
        (f"{name}, head {head}", *(f"{one:.3f}" for one in sums))
        for name, run in runs.items()
        for head, sums in enumerate(run.row_sums)
    ]
    return table(("token", *map(str, range(TOKENS))), rows)


def lesson_figure(runs: dict[str, Trained]) -> Figure:
    """The learning curves, and what the models say at each token."""
    made, (curves, lines) = figure(2, height=3.2)
    for (name, run), colour in zip(runs.items(), COLOURS, strict=False):
        curves.plot(range(1, _STEPS + 1), run.losses, color=colour, label=name)
        lines.plot(run.line, color=colour, marker="o", markersize=5, label=name)
    curves.axhline(FLOOR, color=INK, linestyle=":", label=f"a flat line: at least {FLOOR:g}")
    curves.set_yscale("log")
    curves.set(xlabel="step of training", ylabel="mean squared error")
    lines.plot(range(TOKENS), color=INK, linestyle=":", label="wanted")
    lines.set(xlabel="token", ylabel="what the model says")
    curves.set_title("Trained to say where each token is", fontsize=10)
    lines.set_title(f"After training, on {TOKENS} equal tokens", fontsize=10)
    for panel in (curves, lines):
        panel.legend(fontsize=9, frameon=False)
    return made


def slides() -> Iterator[Slide]:
    """The lecture."""
    yield Slide(
        "Equal tokens",
        (
            f"{TOKENS} equal tokens go in; at each of them the model is to say which one it is: "
            f"0, 1, ..., {TOKENS - 1}. Positions enter by RoPE, which turns queries and keys by an "
            "angle that depends on the position.",
            "The weights of a token are a softmax, so they add up to 1. All values are equal, so "
            "every token receives 1 times the same value. The tokens stay equal, layer after "
            "layer, whatever the weights of the network are. anyseq finds that without training "
            "anything:",
            str(check(Design(TOKENS, position=POSITIONS["RoPE"]))),
        ),
    )
    runs = {name: train(position) for name, position in POSITIONS.items()}
    yield Slide(
        "Train both",
        (
            "URPE (Universal RPE-based attention) multiplies the weights after the softmax by a "
            "learned number for each offset i - j. They need not add up to 1 any more. Everything "
            f"else is the same: {_STEPS} steps, the same data, the same weights at the start.",
            "Mean squared error. No flat line gets below "
            f"(n² - 1)/12 = {FLOOR:g}, and RoPE gets no further:",
            loss_table(runs),
            "What they say at each token:",
            line_table(runs),
        ),
        (("equal-tokens", lesson_figure(runs)),),
    )
    yield Slide(
        "Why",
        (
            "The attention weights of each token in the first layer, added up. If all values are "
            "equal, this sum times the value is what a token receives.",
            sums_table(runs),
            "RoPE's sums are 1 at every token, because softmax makes them so. URPE's heads have "
            "learned sums that change along the sequence, and the layers above compute the "
            "position from them.",
        ),
    )
