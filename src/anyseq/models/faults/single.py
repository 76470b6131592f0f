"""Single layers of a large model, as it is: each is run by itself on an input recorded once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from anyseq.base import generator
from anyseq.models.calls import Call, first_sequence
from anyseq.models.faults.claims import core
from anyseq.models.faults.fault import Fault
from anyseq.models.faults.layers import compared, lost, together
from anyseq.models.faults.rule import Asked, NotChecked, Note
from anyseq.models.faults.seen import Array, Seen
from anyseq.models.faults.subject import Subject
from anyseq.models.scores import Told

_QUERIES = 24  # outputs that are looked at, in a sequence that is longer
_GENTLE = 0.05


class _Enough(Exception):
    """All requested layers have been run."""


def single_layers(asked: Asked) -> Iterator[Fault | Note]:
    """Faults of the layers with claims, with the model's own weights."""
    subject = asked.subject
    wanted = [core(one.module) for one in asked.claims.layers if one.pattern is not None]
    met = _met(subject, wanted)
    if not met:
        raise NotChecked("none of these layers was called when the model was run")
    seen = [_seen(subject, call, 1.0) for call in met]
    faults, paired = compared(subject, asked.claims, seen)
    faults += lost(paired, lambda: [_seen(subject, call, _GENTLE) for call in met])
    yield from together(faults)


def _met(subject: Subject, wanted: list[list[str]]) -> list[Call]:
    """The calls of the wanted modules, in one run that ends with the last of them."""
    found: list[Call] = []

    def note(name: str) -> Any:
        def before(module: torch.nn.Module, args: Any, kwargs: Any) -> None:
            found.append(Call(name, module, args, kwargs))
            if len(found) == len(wanted):
                raise _Enough

        return before

    hooks = [
        module.register_forward_pre_hook(note(name), with_kwargs=True)
        for name, module in subject.module.named_modules()
        if core(name) in wanted
    ]
    try:
        with torch.no_grad():
            subject.forward(subject.arguments(subject.draw()))
    except _Enough:
        pass
    finally:
        for hook in hooks:
            hook.remove()
    return found


def _seen(subject: Subject, call: Call, scale: float) -> Seen:
    """A layer, by gradients; scale: of its input, less for scores near each other."""
    values = (call.kwargs.get("hidden_states"), *call.args)
    call.x = next(one for one in values if isinstance(one, torch.Tensor) and one.ndim == 3)
    x = (scale * call.x.detach()).requires_grad_()
    out = first_sequence(call.again(x))
    if out is None:
        raise NotChecked(f"{call.name} gives no sequence")
    tokens = subject.tokens
    looked = np.unique(np.linspace(0, tokens - 1, min(tokens, _QUERIES)).round().astype(int))
    sees: Array = np.zeros((tokens, tokens), dtype=bool)
    weights = torch.randn(out.shape[2], generator=generator(0), dtype=torch.float64).to(out)
    for token in looked:
        (gradient,) = torch.autograd.grad((out[0, token] * weights).sum(), x, retain_graph=True)
        sees[token] = (gradient[0] != 0).any(1).cpu().numpy()
    chosen: Array = np.zeros(tokens, dtype=bool)
    chosen[looked] = True
    seen = Call(call.name, call.module, call.args, call.kwargs, x, out)
    return Seen(call.name, seen, True, sees, None, Told("unseen"), chosen)
