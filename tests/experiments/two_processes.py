"""What each of two processes does: a script for torchrun.

OUT, WAY: `toy` is run there, stopped on the way, and goes on. WAY is "ddp", every process has all
weights, or "fsdp", each a shard of them.
"""

import signal
import sys
from pathlib import Path

import pytest
import torch
from accelerate import FullyShardedDataParallelPlugin
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType
from torch.distributed.tensor import DTensor

from anyseq.experiments import EXPERIMENTS, reproduce
from anyseq.experiments.engine import Engine, accelerator
from anyseq.experiments.train import Sight
from experiments.toys import Toy, ToyTask, first, second

OUT, WAY = Path(sys.argv[1]), sys.argv[2]
STOPPED_AT = 5

if WAY == "fsdp":
    # accelerate takes this way on GPUs only, unless it finds it here; then it shards on CPUs, too
    accelerator()
    PartialState._shared_state["distributed_type"] = DistributedType.FSDP
    AcceleratorState._shared_state["fsdp_plugin"] = FullyShardedDataParallelPlugin(fsdp_version=2)

EXPERIMENTS["toy"] = Toy(first(dropout=0.0), second(dropout=0.0))
engine = Engine(EXPERIMENTS["toy"].model(first()), ToyTask(), first(), 0)
assert {isinstance(one, DTensor) for one in engine.model.parameters()} == {WAY == "fsdp"}


seen: list[int] = []


def stop(sight: Sight) -> None:
    if sight.step == STOPPED_AT:
        signal.raise_signal(signal.SIGINT)


def look(sight: Sight) -> None:
    seen.append(sight.step)


with pytest.raises(KeyboardInterrupt, match="the same command resumes"):
    reproduce("toy", scale="tiny", seeds=1, out=OUT, watch=stop)
reproduce("toy", scale="tiny", seeds=1, out=OUT, watch=look)
# processes agree to stop in the step after the signal; only the first one reports
assert seen[:1] == [STOPPED_AT + 2] * engine.is_main
torch.distributed.destroy_process_group()
