"""What each of two processes does: a script for torchrun.

OUT: where `toy` is run. Then torch shards a model over the processes (accelerate does so on GPUs
only), and its state must come out whole, and go in again.
"""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from anyseq.base import generator
from anyseq.experiments import EXPERIMENTS, reproduce
from anyseq.experiments.folder import Groups
from anyseq.experiments.state import full_state, restore
from experiments.toys import Toy, ToyTask, first, second

EXPERIMENTS["toy"] = Toy(first(dropout=0.0), second(dropout=0.0))
reproduce("toy", scale="tiny", seeds=1, out=Path(sys.argv[1]))

Pair = tuple[nn.Module, torch.optim.Optimizer]


def made(seed: int, *, sharded: bool) -> Pair:
    torch.manual_seed(seed)
    model = EXPERIMENTS["toy"].model(first())
    if sharded:
        fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)


def step(pair: Pair) -> None:
    model, optimiser = pair
    found = ToyTask().loss(model.eval(), ToyTask().batch(8, generator(0)))
    (found.total / found.items).backward()
    optimiser.step()
    optimiser.zero_grad()


def check_equal(one: Groups, other: Groups) -> None:
    for group, tensors in one.items():
        assert tensors.keys() == other[group].keys()
        for name, tensor in tensors.items():
            assert not isinstance(tensor, DTensor)
            torch.testing.assert_close(tensor, other[group][name])


shards, whole, later = made(0, sharded=True), made(0, sharded=False), made(1, sharded=True)
step(shards)
step(whole)
state = full_state(*shards)
wanted = full_state(*whole)
if torch.distributed.get_rank() == 0:
    check_equal(state, wanted)
read = [wanted]  # as from a file, which all processes can read
torch.distributed.broadcast_object_list(read)
restore(*later, read[0])
step(later)
step(whole)
state = full_state(*later)
if torch.distributed.get_rank() == 0:
    check_equal(state, full_state(*whole))
torch.distributed.destroy_process_group()
