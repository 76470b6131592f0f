"""The weights of a model and the state of its optimiser, whole, whoever holds which shard.

torch's distributed checkpoints know DDP, FSDP and a lone process, and name everything after the
parameter that it belongs to, so a run may go on with another number of processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from anyseq.errors import FileProblem
from anyseq.experiments.folder import Groups


def full_state(model: nn.Module, optimiser: torch.optim.Optimizer) -> Groups:
    """Two groups of tensors, "model" and "optimiser"; all processes must ask, the first gets it."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

    options = StateDictOptions(
        full_state_dict=True, cpu_offload=True, flatten_optimizer_state_dict=True
    )
    weights, state = get_state_dict(model, optimiser, options=options)
    return {"model": _tensors(weights), "optimiser": _tensors(state)}


def restore(model: nn.Module, optimiser: torch.optim.Optimizer, groups: Groups) -> None:
    """Take over what `full_state` gave."""
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        get_optimizer_state_dict,
        set_model_state_dict,
        set_optimizer_state_dict,
    )

    options = StateDictOptions(full_state_dict=True, flatten_optimizer_state_dict=True)
    own: dict[str, Any] = get_optimizer_state_dict(model, optimiser, options=options)
    try:
        # the optimiser first: making room for its state is a step of size 0
        set_optimizer_state_dict(model, optimiser, own | groups["optimiser"], options=options)
        weights: dict[str, Any] = {**groups["model"]}
        set_model_state_dict(model, weights, options=options)
    except (KeyError, RuntimeError) as problem:
        raise FileProblem(f"a checkpoint does not fit its model: {problem}") from problem


def started_from(model: nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Take over the weights that the model has under the same name and in the same shape."""
    own = model.state_dict()
    model.load_state_dict(
        own
        | {
            name: value
            for name, value in weights.items()
            if name in own and own[name].shape == value.shape
        }
    )


def _tensors(state: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Without the optimiser's numbers, such as the rate, which are the cell's."""
    return {
        name: value.detach().clone()
        for name, value in state.items()
        if isinstance(value, torch.Tensor)
    }
