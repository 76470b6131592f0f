"""The subjects of an audit: the model, copied in float64 where it can be; its parts; and a small
copy of its class where it is too large, or its windows too wide."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from inspect import signature
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from anyseq.errors import InvalidArgument, UnsupportedModel
from anyseq.models.faults.subject import (
    Subject,
    close,
    failed,
    ordinary_ids,
    sequence_of,
)
from anyseq.models.fitting import fitted

TOKENS = 30
"""The number of tokens that a model is run on, unless its windows or its table of positions need
another."""

_MOST_COPIED = 300_000_000  # weights


def copied(model: Any, x: dict[str, Any]) -> tuple[Any, str]:
    """A copy that does the same as the model, in float64 if it runs in that; the model itself if
    no copy does. x: arguments to compare them on. And which of these it is, in words."""
    if any(one.is_meta for one in model.parameters()):
        raise InvalidArgument(
            f"{type(model).__name__} has parameters on the meta device: expected real weights"
        )
    own = _outputs(model.eval(), x)
    try:
        copy = deepcopy(model).eval()
        faithful = _same(own, _outputs(copy, x)) and not _calls(copy, model, x)
    except Exception:  # of as many kinds as there are models; the model itself is left
        faithful = False
    if not faithful:
        return _learning(model), "the model itself, which cannot be copied faithfully"
    if getattr(copy, "_can_set_experts_implementation", bool)():
        copy.set_experts_implementation("eager")  # the quicker ones know no float64
    try:
        exact = deepcopy(copy).to("cpu", torch.float64)
        _outputs(exact, {name: _exact(one) for name, one in x.items()})
    except Exception:
        return _learning(copy), f"a copy in {str(_dtype(copy)).removeprefix('torch.')}"
    return _learning(exact), "a copy in float64"


def _outputs(module: torch.nn.Module, given: dict[str, Any]) -> torch.Tensor | None:
    device = next((one.device for one in module.parameters()), torch.device("cpu"))
    there = {
        name: one.to(device) if isinstance(one, torch.Tensor) else one
        for name, one in given.items()
    }
    first = [there.pop("")] if "" in there else []
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        return sequence_of(module(*first, **there))


def _calls(copy: torch.nn.Module, model: torch.nn.Module, x: dict[str, Any]) -> bool:
    """Whether a copy runs parts of the model: a patch may keep hold of the forward it replaces."""
    met: list[torch.nn.Module] = []
    hooks = [
        part.register_forward_pre_hook(lambda part, _: met.append(part)) for part in model.modules()
    ]
    try:
        _outputs(copy, x)
    finally:
        for hook in hooks:
            hook.remove()
    return bool(met)


def _same(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return torch.allclose(one.cpu(), other.cpu(), rtol=1e-3, atol=1e-3, equal_nan=True)


def _exact(value: Any) -> Any:
    whole = not isinstance(value, torch.Tensor) or not value.is_floating_point()
    return value if whole else value.double().cpu()


def _dtype(module: torch.nn.Module) -> torch.dtype:
    found = [one.dtype for one in module.parameters() if one.is_floating_point()]
    return found[0] if found else torch.get_default_dtype()


def _learning(module: torch.nn.Module) -> torch.nn.Module:
    """Without gradients torch fuses whole layers into single operations."""
    for parameter in module.parameters():
        parameter.requires_grad_(parameter.is_floating_point())
    return module


def weights(model: torch.nn.Module) -> int:
    """How many there are."""
    return sum(one.numel() for one in model.parameters())


def too_large(model: torch.nn.Module) -> bool:
    """Whether a model is too large to be copied in float64."""
    return weights(model) > _MOST_COPIED


def itself(model: Any, tokens: int) -> Subject:
    """A transformers model as it is, not copied; its encoder, if it has one."""
    module = model.get_encoder() if _both(model) else model
    count = model.get_input_embeddings().weight.shape[0]
    vocabulary = ordinary_ids(count, model.config)
    model.eval()
    subject = Subject(
        type(model).__name__, module, "the model itself", tokens, module, None, vocabulary,
        tolerance=close(_dtype(model)), hugging_face=True,
    )  # fmt: skip
    return _per_token(subject)


def _both(model: Any) -> bool:
    """Whether a model is encoder and decoder: its halves may have the config of both."""
    takes = signature(model.forward).parameters
    return model.config.is_encoder_decoder and "decoder_input_ids" in takes


def hugging_face(model: Any, tokens: int | None) -> list[Subject]:
    """A transformers model, or its encoder and its decoder."""
    name = type(model).__name__
    if model.main_input_name != "input_ids":
        raise UnsupportedModel(
            f"{name} reads {model.main_input_name}; expected a model that reads input_ids"
        )
    config = model.config
    length = tokens or TOKENS
    vocabulary = ordinary_ids(model.get_input_embeddings().weight.shape[0], config)
    x = vocabulary[torch.arange(length) % len(vocabulary)][None]
    both = _both(model)
    given = {"input_ids": x} | ({"decoder_input_ids": x} if both else {})
    try:
        module, how = copied(model, given)
    except InvalidArgument:
        raise
    except Exception as problem:
        raise failed(name, problem) from problem
    reads = module.get_encoder() if both else module
    length = _worked_on(reads, x, length)
    common: dict[str, Any] = {
        "how": how,
        "tokens": length,
        "vocabulary": vocabulary,
        "tolerance": close(_dtype(module)),
        "hugging_face": True,
        "given": _dtype(model),
    }
    if not both:
        return [_per_token(Subject(name, module, stack=module, **common))]
    encoder, decoder = module.get_encoder(), module.get_decoder()
    return [
        Subject(name, encoder, stack=encoder, text="model.get_encoder()",
                output=".last_hidden_state", part="encoder", **common),
        _per_token(Subject(name, module, stack=decoder, part="decoder", **common)),
    ]  # fmt: skip


def _worked_on(module: Any, x: torch.Tensor, tokens: int) -> int:
    """How many tokens a model works on if it is given so many: more if it pads them to a multiple
    of its windows, as Longformer does."""
    lengths: Counter[int] = Counter()

    def note(part: torch.nn.Module, args: Any, out: Any) -> None:
        if isinstance(out, torch.Tensor) and out.ndim == 3:
            lengths[out.shape[1]] += 1

    hooks = [part.register_forward_hook(note) for part in module.modules()]
    try:
        _outputs(module, {"input_ids": x})
    finally:
        for hook in hooks:
            hook.remove()
    ((most, _),) = lengths.most_common(1) or ((tokens, 1),)
    return most if tokens < most < 2 * tokens else tokens


def _per_token(subject: Subject) -> Subject:
    """The model, or what is below its head if that has no output for each token."""
    x = subject.draw()
    try:
        with torch.no_grad():
            answer = subject.forward(subject.arguments(x))
    except Exception as problem:
        raise failed(subject.name, problem) from problem
    out = sequence_of(answer)
    if out is None or out.shape[:2] != x.shape[:2]:
        if subject.stack is subject.module:
            subject.stack = subject.module.base_model
        subject.module = subject.module.base_model
        subject.text += ".base_model"
        subject.__post_init__()
        subject.run(x)
        with torch.no_grad():
            answer = subject.forward(subject.arguments(x))
    names = ("logits", "prediction_logits", "last_hidden_state")
    subject.output = next((f".{one}" for one in names if hasattr(answer, one)), "[0]")
    return subject


def plain(model: torch.nn.Module, tokens: int | None) -> list[Subject]:
    """A user's torch module."""
    name, length = type(model).__name__, tokens or TOKENS
    ids = torch.ones(1, length, dtype=torch.int64)
    count = _vocabulary(model, ids)
    if count is not None:
        vocabulary = ordinary_ids(count)
        x, features = vocabulary[torch.arange(length) % len(vocabulary)][None], None
    else:
        own = deepcopy(model).to("cpu", torch.float64).eval()
        try:
            function = fitted(name, own, None, length)
        except InvalidArgument:
            if tokens is not None:
                raise
            function = fitted(name, own, None, None)
        features, length = function.features, function.tokens
        vocabulary = torch.zeros(0, dtype=torch.int64)
        x = torch.zeros(1, length, features, dtype=_dtype(model))
    try:
        module, how = copied(model, {"": x})
        with torch.no_grad():
            answer = module(_exact(x).to(_dtype(module)) if features else x)
    except InvalidArgument:
        raise
    except Exception as problem:
        raise failed(name, problem) from problem
    if sequence_of(answer) is None:
        raise UnsupportedModel(f"{name} gives no tensor (batch, tokens, anything)")
    tolerance = close(_dtype(module))
    names = ("logits", "prediction_logits", "last_hidden_state")
    output = "" if isinstance(answer, torch.Tensor) else next(
        (f".{one}" for one in names if hasattr(answer, one)), "[0]"
    )  # fmt: skip
    return [Subject(name, module, how, length, module, features, vocabulary,
                    output=output, tolerance=tolerance, given=_dtype(model))]  # fmt: skip


def _vocabulary(model: torch.nn.Module, ids: torch.Tensor) -> int | None:
    """The size of the smallest table that a module reads at its input ids; None if it cannot be run
    on ids."""
    reads = _Reads(ids)
    try:
        with reads:
            _outputs(model.eval(), {"": ids})
    except Exception:  # it takes something else
        return None
    return min(reads.sizes, default=None)


class _Reads(TorchFunctionMode):
    """sizes: of the tables of vectors that are read at the given ids."""

    def __init__(self, ids: torch.Tensor) -> None:
        super().__init__()
        self.ids = ids
        self.sizes: list[int] = []

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if name == "embedding":
            given = [*args, *kwargs.values()]
            self._note(*(given[:2] if function is F.embedding else given[1::-1]))
        elif name == "__getitem__" and isinstance(args[1], torch.Tensor):
            self._note(args[1], args[0])
        return function(*args, **kwargs)

    def _note(self, index: torch.Tensor, table: torch.Tensor) -> None:
        if table.ndim == 2 and torch.equal(index.cpu(), self.ids):
            self.sizes.append(len(table))
