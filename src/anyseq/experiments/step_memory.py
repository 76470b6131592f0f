"""What a training step needs on top of the weights: measured in a process of its own, since memory
that was freed is not always given back.

    python -m anyseq.experiments.step_memory CELL      the cell of an overhead experiment, as JSON
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict

import torch

from anyseq.base import extra_bytes
from anyseq.experiments.peer import training_step
from anyseq.experiments.position_tasks import PositionCell, Synthetic, position_model


def step_bytes(cell: PositionCell) -> int:
    """Measured in a new process."""
    command = [sys.executable, "-m", "anyseq.experiments.step_memory", json.dumps(asdict(cell))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return max(int(done.stdout), 1)


def _measure(cell: PositionCell) -> int:
    device = torch.accelerator.current_accelerator() or torch.device("cpu")
    model = position_model(cell, cell.vocab).to(device)
    step = training_step(model, Synthetic(cell.vocab, cell.tokens), cell.batch)
    if device.type != "cuda":
        return extra_bytes(step)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    return torch.cuda.max_memory_allocated() - before


if __name__ == "__main__":
    sys.stdout.write(str(_measure(PositionCell(**json.loads(sys.argv[1])))))
