"""What a model does when it is run: the calls of its modules as a tree, and their scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.modules.conv import _ConvNd
from torch.utils._python_dispatch import TorchDispatchMode

_MEMORIES = {"cache", "past_key_values", "past_key_value", "layer_past"}
_SOFTMAX = (torch.ops.aten._softmax.default, torch.ops.aten._safe_softmax.default)
_FUSED = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default


@dataclass(eq=False)
class Call:
    """One call of a module.

    x, out: (batch, tokens, features) the input and the output, as part of one graph of autograd;
        None if they were not such tensors.
    handed_on: what the caller got, equal to out.
    scores: what was put through softmax, masked, one for each such operation of its own.
    scored_before: its parts that were called before the first of them.
    """

    name: str
    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    x: torch.Tensor | None = None
    out: torch.Tensor | None = None
    handed_on: torch.Tensor | None = None
    parts: list[Call] = field(default_factory=list)
    scores: list[torch.Tensor] = field(default_factory=list)
    scored_before: int = 0

    @property
    def is_sequence(self) -> bool:
        """Whether it maps sequences to such of as many tokens, in one graph of autograd."""
        x, out = self.x, self.out
        if x is None or out is None or x.shape[:2] != out.shape[:2]:
            return False
        return x.requires_grad and out.requires_grad

    @property
    def shape(self) -> torch.Size:
        """Of x."""
        return torch.Size() if self.x is None else self.x.shape

    def again(self, x: torch.Tensor) -> Any:
        """The same call with another x, and nothing kept from earlier calls."""
        args = [x if value is self.x else value for value in self.args]
        kwargs = {key: x if value is self.x else value for key, value in self.kwargs.items()}
        return self.module(*args, **kwargs | dict.fromkeys(_MEMORIES & kwargs.keys()))

    def walk(self) -> Iterator[Call]:
        """The call and all within it."""
        yield self
        for part in self.parts:
            yield from part.walk()


def record(model: torch.nn.Module, run: Callable[[], Any], scores: bool = True) -> Call:
    """The calls of a run, with their scores if requested, which takes time. `run` calls the
    model."""
    root = Call("", model, (), {})
    with watched(model, root, scores):
        run()
    return root


@contextmanager
def watched(model: torch.nn.Module, root: Call, scores: bool) -> Iterator[None]:
    """Calls of the model's parts are noted below `root`."""
    names = {module: name for name, module in model.named_modules()}
    stack = [root]

    def enter(module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        call = Call(names[module], module, args, kwargs)
        if not isinstance(module, _ConvNd):  # whose second axis is that of features
            call.x = _sequence_in(args, kwargs)
        stack[-1].parts.append(call)
        stack.append(call)

    def leave(module: torch.nn.Module, args: Any, kwargs: Any, out: Any) -> Any:
        call = stack.pop()
        call.out = call.handed_on = first_sequence(out)
        if call.out is not None and out is call.out:
            # a caller may add to it in place, which would make it depend on more
            call.handed_on = out = out.clone()
        return out

    hooks = []
    for module in names:
        hooks.append(module.register_forward_pre_hook(enter, with_kwargs=True))
        hooks.append(module.register_forward_hook(leave, with_kwargs=True))
    try:
        with _Scores(stack) if scores else nullcontext():
            yield
    finally:
        for hook in hooks:
            hook.remove()


class _Scores(TorchDispatchMode):
    """Records what goes into softmax, in the call under way: by the operations themselves, so that
    it does not matter which function of torch they are part of."""

    def __init__(self, stack: list[Call]) -> None:
        super().__init__()
        self._stack = stack

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = self._stack[-1]
        scores = None
        if func in _SOFTMAX and args[0].ndim >= 3 and args[1] in (-1, args[0].ndim - 1):
            scores = args[0]
        elif func is _FUSED:
            scores = _fused_scores(*args, **kwargs or {})
        if scores is not None:
            call.scores.append(scores.detach())
            call.scored_before = call.scored_before or len(call.parts)
        return func(*args, **kwargs or {})


def _fused_scores(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> torch.Tensor:
    """The scores of scaled_dot_product_attention in one operation, by its formula; heads of queries
    may share such of keys."""
    key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        hidden = scores.new_ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -torch.inf)
    return scores if attn_mask is None else scores + attn_mask


def _sequence_in(args: Any, kwargs: Any) -> torch.Tensor | None:
    """The sequence that the module maps: the first one, or that of its usual name."""
    values = (kwargs.get("hidden_states"), *args[:1], *args[1:], *kwargs.values())
    sequences = [value for value in values if is_sequence(value)]
    first = [value for value in values[:2] if is_sequence(value)]
    learned = [value for value in sequences if value.requires_grad]
    return next(iter((*first, *learned)), None)


def is_sequence(value: Any) -> bool:
    """Whether it is (batch, tokens, features)."""
    return isinstance(value, torch.Tensor) and value.ndim == 3 and value.is_floating_point()


def adds_residual(call: Call) -> bool:
    """Whether a call gets the residual beside x, to add it itself, as Bloom's do."""
    others = (one for one in (*call.args, *call.kwargs.values()) if one is not call.x)
    return any(is_sequence(one) and one.shape == call.shape for one in others)


def first_sequence(out: Any) -> torch.Tensor | None:
    """The sequence among the outputs of a module."""
    if isinstance(out, dict):
        out = tuple(out.values())
    if isinstance(out, tuple | list):
        out = next((one for one in out if isinstance(one, torch.Tensor)), None)
    return out if is_sequence(out) else None


def scores_within(call: Call, x: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor | None]:
    """The scores of the same call with another x, and what it gives."""
    root = Call("", call.module, (), {})
    with _Scores([root]):  # with gradients, without which torch runs whole layers as one operation
        out = call.again(x)
    return root.scores, first_sequence(out)
