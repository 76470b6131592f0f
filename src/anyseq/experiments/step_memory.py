"""The memory of a training step on top of the weights: measured in a process of its own, since
memory that was freed is not always given back.

    python -m anyseq.experiments.step_memory CELL      the cell of an overhead experiment, as JSON
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict

import torch

from anyseq.base import extra_bytes, has_high_water_mark
from anyseq.errors import AnyseqError
from anyseq.experiments.peer import training_step
from anyseq.experiments.position_tasks import PositionCell, Synthetic, position_model


def step_bytes(cell: PositionCell) -> int | None:
    """Measured in a new process; None if this machine does not report it."""
    command = [sys.executable, "-m", "anyseq.experiments.step_memory", json.dumps(asdict(cell))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise AnyseqError(f"the memory of {cell.setting!r} cannot be measured: {said[-1]}")
    found = json.loads(done.stdout)
    return None if found is None else max(int(found), 1)


def _measure(cell: PositionCell) -> int | None:
    device = torch.accelerator.current_accelerator() or torch.device("cpu")
    if device.type != "cuda" and not has_high_water_mark():
        return None
    model = position_model(cell, cell.vocab).to(device)
    step = training_step(model, Synthetic(cell.vocab, cell.tokens), cell.batch)
    if device.type != "cuda":
        return extra_bytes(step)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    return torch.cuda.max_memory_allocated() - before


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_measure(PositionCell(**json.loads(sys.argv[1])))))
