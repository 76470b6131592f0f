"""The mask that Hugging Face requests, as a description instead of an N x M tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from inspect import getclosurevars
from operator import and_
from typing import Any

import torch
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from transformers.masking_utils import (
    and_masks,
    bidirectional_mask_function,
    causal_mask_function,
    chunked_overlay,
    packed_sequence_mask_function,
    prepare_padding_mask,
    sliding_window_bidirectional_overlay,
    sliding_window_overlay,
)

from anyseq.errors import InvalidArgument
from anyseq.patterns import MaskMod, Pattern, Window

MaskFunction = Callable[..., Any]
"""What Hugging Face calls a mask_mod: (b, h, i, j) -> bool."""

# Closures made by one function share its code: that is how they are recognised.
_AND = and_masks(causal_mask_function).__code__
_LOOK_BACK = sliding_window_overlay(1).__code__
_LOOK_AROUND = sliding_window_bidirectional_overlay(1).__code__
_IN_CHUNKS = chunked_overlay(1, torch.zeros(1)).__code__
_PACKED = packed_sequence_mask_function(torch.zeros(1, 1)).__code__

_LOOKS = {torch.Tensor.dim, torch.Tensor.size} | {
    getattr(torch.Tensor, name).__get__
    for name in ("shape", "ndim", "dtype", "device", "requires_grad")
}
_KEEPS = {torch.Tensor.to, torch.Tensor.contiguous, torch.Tensor.detach}


class AttentionMask(torch.Tensor):
    """The mask that a model requests; shape (B, 1, N, M), memory of one entry.

    It is a tensor of four axes because models and `generate` pass such a mask on unchanged. A model
    that computed with it would get nothing, so this is an error that names the operation.

    causal: key j <= query i.
    pattern: the model's further restriction on i and j, or None.
    documents: (B, M) int64, the document of each key's position (chunks, packed sequences): a token
        attends to its own document only; or None.
    mask_mod: a restriction given by a function that is not a known one, and may depend on the batch
        row; or None.
    key_mask: (B, M) bool, False for padding; None if there is none.
    extent: (B, 2) the position of the first real token and that after the last one; None if there
        is no padding.
    q_offset, kv_offset: the positions of the first query and of the first key.
    """

    causal: bool
    pattern: Pattern | None
    documents: torch.Tensor | None
    mask_mod: MaskMod | None
    key_mask: torch.Tensor | None
    extent: torch.Tensor | None
    q_offset: int
    kv_offset: int

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is torch.Tensor.__repr__:
            return args[0]._text()
        if func in _KEEPS:
            return args[0]
        if func in _LOOKS:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        raise InvalidArgument(
            f"attention_mask: the model computes {getattr(func, '__name__', func)} of its mask, "
            "but anyseq builds no N x M mask; put the restriction into the pattern instead"
        )

    def _text(self) -> str:
        padded = "" if self.key_mask is None else ", padded"
        apart = "" if self.documents is None else ", documents"
        return (
            f"AttentionMask(causal={self.causal}, pattern={self.pattern}, "
            f"mask_mod={self.mask_mod}{apart}{padded}, "
            f"q_offset={self.q_offset}, kv_offset={self.kv_offset})"
        )


def build_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | torch.Tensor = 0,
    kv_offset: int = 0,
    mask_function: MaskFunction = causal_mask_function,
    attention_mask: torch.Tensor | None = None,
    use_vmap: bool = False,
    device: torch.device | str = "cpu",
    **how_to_build: object,
) -> AttentionMask:
    """What is registered with `AttentionMaskInterface`.

    mask_function(b, h, i, j) takes positions: i = q_offset + row, j = kv_offset + column.
    attention_mask: (B, positions so far) bool, False for padding.
    use_vmap: mask_function takes scalars only.
    how_to_build: when a dense mask may be left out and what dtype it has; there is none here.
    """
    one = torch.ones((), dtype=torch.bool, device=device)
    mask = torch.Tensor._make_subclass(
        AttentionMask, one.expand(batch_size, 1, q_length, kv_length)
    )
    # A static cache counts in a tensor that it goes on changing: the number is taken now.
    mask.q_offset, mask.kv_offset = int(q_offset), int(kv_offset)
    parts = [_pointwise(mask_function)] if use_vmap else list(_conjuncts(mask_function))
    mask.causal = causal_mask_function in parts
    position = torch.arange(mask.kv_offset, mask.kv_offset + kv_length, device=device)
    patterns, documents, functions = [], [], []
    for part in parts:
        if part in (causal_mask_function, bidirectional_mask_function):
            continue
        if (window := _window(part, mask.causal)) is not None:
            patterns.append(window)
        elif (own := _documents(part, batch_size, position)) is not None:
            documents.append(own)
        else:
            functions.append(part)
    mask.pattern = reduce(and_, patterns) if patterns else None
    mask.documents = reduce(_crossed, documents) if documents else None
    mask.mask_mod = and_masks(*functions) if functions else None
    mask.extent = None if attention_mask is None else _extent(attention_mask)
    mask.key_mask = None
    padding = prepare_padding_mask(attention_mask, kv_length, kv_offset)
    if padding is not None:
        seen = padding[:, mask.kv_offset : mask.kv_offset + kv_length].to(torch.bool)
        mask.key_mask = None if seen.all() else seen.expand(batch_size, kv_length)
    return mask


def _extent(attention_mask: torch.Tensor) -> torch.Tensor | None:
    """(B, 2), from all positions so far; a row of nothing but padding counts as whole."""
    is_real = attention_mask.to(torch.bool)
    if bool(is_real.all()):
        return None
    is_real = is_real | ~is_real.any(1, keepdim=True)
    first, after = is_real.int().argmax(1), is_real.flip(1).int().argmax(1)
    return torch.stack([first, is_real.shape[1] - after], dim=1)


def _conjuncts(mask_function: MaskFunction) -> Iterator[MaskFunction]:
    if getattr(mask_function, "__code__", None) is _AND:
        for part in getclosurevars(mask_function).nonlocals["mask_functions"]:
            yield from _conjuncts(part)
    else:
        yield mask_function


def _window(part: MaskFunction, causal: bool) -> Pattern | None:
    code = getattr(part, "__code__", None)
    if code in (_LOOK_BACK, _LOOK_AROUND):
        size = getclosurevars(part).nonlocals["sliding_window"]
        # Looking back: i - j < size, one side of a window; causality is the other side.
        radius = size - 1 if code is _LOOK_BACK else size
        if radius >= 0 and (causal or code is _LOOK_AROUND):
            return Window(radius)
    return None


def _documents(part: MaskFunction, rows: int, position: torch.Tensor) -> torch.Tensor | None:
    """(B, M) the documents of positions (M,), if the function separates documents: chunks counted
    from the first real token of each row, or sequences packed one after the other."""
    code = getattr(part, "__code__", None)
    if code is _IN_CHUNKS:
        said = getclosurevars(part).nonlocals
        begin = torch.as_tensor(said["left_padding"], device=position.device)
        size: int = said["chunk_size"]
        return ((position - begin[:, None]) // size).expand(rows, -1)
    if code is _PACKED:
        numbers = getclosurevars(part).nonlocals["packed_sequence_mask"]
        if numbers.shape[1] > int(position[-1]):
            own: torch.Tensor = numbers.to(position.device)[:, position]
            return own.expand(rows, -1)
    return None


def _crossed(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Documents that agree in both numberings."""
    other = other - other.min()
    return one * (other.max() + 1) + other


def _pointwise(mask_function: MaskFunction) -> MaskMod:
    """A function of four numbers as one of four tensors that broadcast."""

    def mask_mod(*indices: torch.Tensor) -> torch.Tensor:
        wide = torch.broadcast_tensors(*indices)
        with TransformGetItemToIndex():
            flat: torch.Tensor = torch.vmap(mask_function)(*(index.flatten() for index in wide))
        return flat.view(wide[0].shape)

    return mask_mod
