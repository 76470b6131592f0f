"""Fitting a ReLU net to f by sampling: Adam, a cosine schedule, fresh inputs at every step.

No input is used twice, so there is nothing to overfit; what is measured on the held-out inputs
decides when to stop and which weights to keep. Everything that happens at a step follows from the
seed and the steps before, and not from the tolerance: work that was stopped, or that met a looser
tolerance, goes on as if it had never stopped.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from functools import cached_property

import torch

from anyseq.base import Progress, generator, power_of_two_at_least, uniform
from anyseq.construct.methods.fit.checkpoint import Checkpoint
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.target import Target
from anyseq.construct.tables.relu_net import NetShape, evaluate
from anyseq.errors import FileProblem

STEPS = 8192
BATCH = 512
_EVERY = 64  # steps between two looks at the held-out inputs
_PATIENCE = STEPS // 4  # steps without a better look, and it gives up
_HELD_OUT = 4096
_PEAK, _WARM_UP = 2e-3, 128  # the learning rate, and the steps to reach it
_DECAY, _DECAY_2, _FLOOR = 0.9, 0.98, 1e-8  # Adam's
_QUANTILE = 2.33  # of the normal distribution, 99 %: the error must be below tol by that much
_PROBES = 16  # held-out values of f in a checkpoint, to know it again
_SECONDS_BETWEEN_WRITES = 10.0

_STAGE = "fit to samples of f"


@dataclass(frozen=True)
class Trained:
    """weights: the best, in float64 and in the units of f; error: of them, on the held-out inputs;
    largest: the largest |f| seen there; steps: how many were made."""

    weights: dict[str, torch.Tensor]
    error: float
    largest: float
    steps: int


@dataclass
class _State:
    step: int
    flat: torch.Tensor
    mean: torch.Tensor  # of the gradients, decaying
    square: torch.Tensor  # of their squares
    best: torch.Tensor
    best_error: float
    best_step: int
    rng: torch.Generator

    @classmethod
    def start(cls, shape: NetShape, rng: torch.Generator) -> _State:
        flat = shape.draw(rng)
        zeros = torch.zeros_like(flat)
        return cls(0, flat, zeros, zeros.clone(), flat.clone(), math.inf, 0, rng)

    def tensors(self) -> dict[str, torch.Tensor]:
        return {
            "flat": self.flat,
            "mean": self.mean,
            "square": self.square,
            "best": self.best,
            "best_error": torch.tensor(self.best_error, dtype=torch.float64),
            "steps": torch.tensor([self.step, self.best_step]),
            "rng": self.rng.get_state(),
        }

    @classmethod
    def of(cls, tensors: dict[str, torch.Tensor]) -> _State:
        rng = generator(0)
        rng.set_state(tensors["rng"])
        step, best_step = tensors["steps"].tolist()
        flat, mean, square, best = (tensors[name] for name in ("flat", "mean", "square", "best"))
        return cls(step, flat, mean, square, best, float(tensors["best_error"]), best_step, rng)


def train(target: Target, shape: NetShape, ask: Ask, progress: Progress) -> Trained:
    """The best net found: the first that meets ask.tol on the held-out inputs, if one does."""
    return _Training(target, shape, ask).run(progress)


@dataclass(frozen=True)
class _Training:
    target: Target
    shape: NetShape
    ask: Ask

    def run(self, progress: Progress) -> Trained:
        state = self._restored() or _State.start(self.shape, generator(self.ask.seed))
        written = time.monotonic()
        while True:
            if state.step % _EVERY == 0:
                self._look(state)
                over = (
                    state.best_error <= self.ask.tol
                    or state.step >= STEPS
                    or state.step - state.best_step >= _PATIENCE
                )
                if over or time.monotonic() - written >= _SECONDS_BETWEEN_WRITES:
                    self._keep(state)
                    written = time.monotonic()
                if over:
                    break
                progress(_STAGE, state.step, STEPS)
            self._advance(state)
        progress(_STAGE, STEPS, STEPS)
        return Trained(
            self._in_units_of_f(state.best),
            state.best_error,
            float(self._held_out[1].abs().max()),
            state.step,
        )

    def _advance(self, state: _State) -> None:
        """One step of Adam on mean|F - f|, squared from p = 2 on; f is centred and scaled."""
        x = self._inputs(BATCH, state.rng)
        wanted = self._scaled(self.target(x).flatten(1)).float()
        flat = state.flat.requires_grad_()
        missed = evaluate(self.shape.views(flat), x.flatten(1).float()) - wanted
        loss = missed.abs().mean() if self.ask.p < 2 else missed.square().mean()
        (gradient,) = torch.autograd.grad(loss, flat)
        state.flat = flat.detach()
        state.step += 1
        state.mean.lerp_(gradient, 1 - _DECAY)
        state.square.lerp_(gradient.square(), 1 - _DECAY_2)
        mean = state.mean / (1 - _DECAY**state.step)
        square = state.square / (1 - _DECAY_2**state.step)
        rate = min(1.0, state.step / _WARM_UP) * (1 + math.cos(math.pi * state.step / STEPS)) / 2
        state.flat.addcdiv_(mean, square.sqrt_().add_(_FLOOR), value=-_PEAK * rate)

    def _look(self, state: _State) -> None:
        """Measure the error on the held-out inputs: an upper limit, at 99 %, of the true one."""
        x, y = self._held_out
        with torch.no_grad():
            found = evaluate(self.shape.views(state.flat), x.flatten(1).float()).double()
        missed = (found - self._scaled(y)).abs()
        unit = float(missed.max())  # so that no power under- or overflows
        powers = ((missed / unit) ** self.ask.p).mean(1) if unit else missed.mean(1)
        limit = float(powers.mean() + _QUANTILE * powers.std() / math.sqrt(len(powers)))
        error = self.ask.spread * self._scale * unit * limit ** (1 / self.ask.p)
        if error < state.best_error:
            state.best, state.best_error, state.best_step = state.flat.clone(), error, state.step

    @cached_property
    def _held_out(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs from a stream of their own, and f there (inputs, entries)."""
        x = self._inputs(_HELD_OUT, generator(2**63 - 1 - self.ask.seed))
        return x, self.target(x).flatten(1)

    @cached_property
    def _centre(self) -> torch.Tensor:
        return self._held_out[1].mean(0)

    @cached_property
    def _scale(self) -> float:
        spread = float((self._held_out[1] - self._centre).std())
        return power_of_two_at_least(spread) if spread > 0 else 1.0

    def _scaled(self, y: torch.Tensor) -> torch.Tensor:
        return (y - self._centre) / self._scale

    def _inputs(self, count: int, rng: torch.Generator) -> torch.Tensor:
        return uniform(count, self.target.tokens, self.target.features, rng=rng)

    def _in_units_of_f(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        weights = self.shape.views(flat.double())
        weights["out_weight"] = weights["out_weight"] * self._scale
        weights["out_bias"] = weights["out_bias"] * self._scale + self._centre
        return {name: weight.clone() for name, weight in weights.items()}

    @cached_property
    def _checkpoint(self) -> Checkpoint | None:
        ask = self.ask
        if ask.checkpoint is None:
            return None
        return Checkpoint(
            ask.checkpoint,
            {
                "method": "fit",
                "design": ask.design.to_dict(),
                "norm": ask.norm,
                "p": ask.p,
                "seed": ask.seed,
                "net": asdict(self.shape),
                "schedule": [STEPS, BATCH, _EVERY, _HELD_OUT, _PEAK, _WARM_UP, _DECAY, _DECAY_2],
            },
        )

    def _keep(self, state: _State) -> None:
        if self._checkpoint:
            self._checkpoint.write(state.tensors() | {"probe": self._held_out[1][:_PROBES].clone()})

    def _restored(self) -> _State | None:
        tensors = self._checkpoint.read() if self._checkpoint else None
        if tensors is None or self._checkpoint is None:
            return None
        wanted = self._held_out[1][:_PROBES]
        if not torch.allclose(tensors["probe"], wanted, rtol=1e-9, atol=1e-9 * self._scale):
            raise FileProblem(
                f"checkpoint {str(self._checkpoint.file)!r} belongs to another f: its values there "
                "and here differ; choose a new folder"
            )
        return _State.of(tensors)
