"""One model in training, on however many processes.

The engine is Hugging Face accelerate: the same script runs alone, under `torchrun` and under
`accelerate launch`, with DDP or FSDP and in mixed precision according to its own configuration, and
the loop stays an ordinary loop (Lightning Fabric would do as well; accelerate is already there
wherever transformers is). This module adds what accelerate does not settle: a global batch that
does not depend on the number of processes, and full checkpoints however the shards are distributed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import nn

from anyseq.base import seed_of
from anyseq.errors import InvalidArgument, MissingExtra
from anyseq.experiments.experiment import Batch, Cell, Task
from anyseq.experiments.folder import Groups
from anyseq.experiments.state import full_state, restore

if TYPE_CHECKING:
    from accelerate import Accelerator

_CLIP = 1.0  # the largest norm of a gradient
_FALL = 0.2  # the share of the steps in which the learning rate falls


def accelerator() -> Accelerator:
    """accelerate's view of this process and the others."""
    try:
        from accelerate import Accelerator
    except ImportError as problem:
        raise MissingExtra(
            'training needs accelerate: pip install "anyseq[experiments]"'
        ) from problem
    # told, since without it processes on CPUs would not look for each other
    return Accelerator(cpu=not torch.accelerator.is_available())


@contextmanager
def own_random_state(*names: int | str) -> Iterator[None]:
    """torch's random state is that of a place (`seed_of`) inside, and as before afterwards."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed_of(*names))
        yield


def is_main_process() -> bool:
    """Whether this one of the processes writes files and reports."""
    return bool(accelerator().is_main_process)


class Engine:
    """A model, its optimiser, and one step of training."""

    def __init__(self, model: nn.Module, task: Task, cell: Cell, seed: int) -> None:
        self.task, self.cell, self.seed = task, cell, seed
        self.accelerator = accelerator()
        self.rank, self.processes = (
            self.accelerator.process_index,
            self.accelerator.num_processes,
        )
        optimiser = torch.optim.AdamW(
            model.parameters(), lr=cell.rate, weight_decay=cell.weight_decay, fused=True
        )
        self.model, self.optimiser = self.accelerator.prepare(model, optimiser)

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and reports."""
        return bool(self.accelerator.is_main_process)

    def step(self, step: int, batch: Batch, votes: Sequence[bool]) -> tuple[float, list[bool]]:
        """Train on the global batch: the loss, and which votes some process has cast.

        NaN: the loss, its gradient or the weights are not numbers, and nothing was changed.

        Every process has the whole batch and takes its rows. DDP averages gradients over the
        processes, so each divides by the count of all of them and multiplies by their number.
        """
        # for dropout: a step is the same whether or not the run was stopped before it
        torch.manual_seed(seed_of(self.seed, "step", step, self.rank))
        for group in self.optimiser.param_groups:
            group["lr"] = rate_at(self.cell, step)
        self.model.train()
        try:
            found = self.task.loss(self.model, self._share(batch))
        except InvalidArgument:
            if all(bool(weight.isfinite().all()) for weight in self.model.parameters()):
                raise
            return math.nan, [False] * len(votes)  # an operator met them before the loss did
        sums = torch.stack([found.total.detach(), found.items, *map(found.total.new_tensor, votes)])
        total, items, *cast = self._sum(sums).tolist()
        self.accelerator.backward(found.total * (self.processes / max(items, 1.0)))
        norm = float(self.accelerator.clip_grad_norm_(self.model.parameters(), _CLIP))
        # a scaler of mixed precision expects infinite gradients, and leaves such a step out
        if self.accelerator.scaler is None and not math.isfinite(norm):
            return math.nan, [False] * len(votes)
        self.optimiser.step()
        self.optimiser.zero_grad()
        return total / max(items, 1.0), [vote > 0 for vote in cast]

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """The task's metrics on its held-out batches."""
        self.model.eval()
        totals: dict[str, torch.Tensor] = {}
        for batch in self.task.held_out():
            for name, found in self.task.scores(self.model, self._share(batch)).items():
                pair = torch.stack([found.total, found.items]).cpu().double()
                totals[name] = totals.get(name, 0.0) + pair
        sums = {name: self._sum(pair).tolist() for name, pair in totals.items()}
        return dict(
            self.task.finish({name: total / count for name, (total, count) in sums.items()})
        )

    def state(self) -> Groups:
        """All weights, the optimiser's state, and the scale of mixed precision if there is one,
        gathered; every process must call this."""
        found = full_state(self.model, self.optimiser.optimizer)
        if self.accelerator.scaler is not None:
            found["scaler"] = {
                name: torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
                for name, value in self.accelerator.scaler.state_dict().items()
            }
        return found

    def restore(self, groups: Groups) -> None:
        """Resume from a state that `state` gave."""
        restore(self.model, self.optimiser.optimizer, groups)
        if self.accelerator.scaler is not None:
            self.accelerator.scaler.load_state_dict(
                {name: value.item() for name, value in groups["scaler"].items()}
            )

    def _share(self, batch: Batch) -> Batch:
        device = self.accelerator.device
        return {
            name: value[self.rank :: self.processes].to(device) for name, value in batch.items()
        }

    def _sum(self, numbers: torch.Tensor) -> torch.Tensor:
        """Over the processes."""
        if self.processes == 1:
            return numbers
        device = self.accelerator.device
        dtype = torch.float32 if device.type == "mps" else torch.float64  # MPS has no float64
        added: torch.Tensor = self.accelerator.reduce(numbers.to(device, dtype), "sum")
        return added


def rate_at(cell: Cell, step: int) -> float:
    """The learning rate of a step: linear up to the peak, level, linear down to 0 in the last
    fifth."""
    up = (step + 1) / max(cell.warm_up, 1)
    down = (cell.steps - step) / max(_FALL * cell.steps, 1.0)
    return cell.rate * min(up, 1.0, down)
