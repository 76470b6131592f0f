"""The weights of a model and the state of its optimiser, whole, however the shards are distributed.

torch's distributed checkpoints know DDP, FSDP and a lone process, and name everything after the
parameter that it belongs to, so a run may resume with another number of processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from anyseq.errors import FileProblem
from anyseq.experiments.folder import Groups


def full_state(model: nn.Module, optimiser: torch.optim.Optimizer) -> Groups:
    """Two groups of tensors, "model" and "optimiser"; all processes must call this, the first gets
    the result.

    Without the optimiser's numbers, such as the rate, which are the cell's.
    """
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    found: tuple[Any, Any] = get_state_dict(model, optimiser, options=options)
    weights, state = found
    return {
        "model": {name: value.clone() for name, value in weights.items()},
        "optimiser": {
            f"{name}.{key}": value.clone()
            for name, kept in state.get("state", {}).items()
            for key, value in kept.items()
        },
    }


def restore(model: nn.Module, optimiser: torch.optim.Optimizer, groups: Groups) -> None:
    """Take over what `full_state` gave."""
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        get_optimizer_state_dict,
        set_model_state_dict,
        set_optimizer_state_dict,
    )

    state: dict[str, dict[str, torch.Tensor]] = {}
    for name, value in groups["optimiser"].items():
        parameter, key = name.rsplit(".", 1)
        state.setdefault(parameter, {})[key] = value.clone()
    weights: dict[str, Any] = {name: value.clone() for name, value in groups["model"].items()}
    options = StateDictOptions(full_state_dict=True)
    # this makes room for the state by a step of size 0, so the weights come last
    own: dict[str, Any] = get_optimizer_state_dict(model, optimiser, options=options)
    try:
        set_optimizer_state_dict(model, optimiser, own | {"state": state}, options=options)
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
