"""`anyseq.scaled_dot_product_attention`: torch's function of that name, with patterns."""

from __future__ import annotations

import torch

from anyseq.errors import InvalidArgument
from anyseq.ops.api import attend
from anyseq.ops.call import Call
from anyseq.ops.checks import broadcasts, check_term, checked
from anyseq.patterns import PatternLike


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    pattern: PatternLike = None,
) -> torch.Tensor:
    """softmax(query key^T·scale + attn_mask) value, as `torch.nn.functional` has it, and a pattern.

    query (..., H, N, D), key (..., H, M, D), value (..., H, M, E) -> (..., H, N, E). All axes
    before the last two broadcast, and may be missing; with `enable_gqa` H may be a multiple of the
    heads of key and value.

    attn_mask: broadcasts to (..., H, N, M); bool, True = may attend, or numbers added to scores.
    is_causal: key j <= query i, both counted from 0 whatever N and M are. Not with attn_mask.
    pattern: what `anyseq.attention` takes; both it and the mask must allow a pair.

    A row with nothing to attend to gives 0 and passes no gradient (torch gives 0 or NaN, by its
    backend).
    """
    sides = {"query": query, "key": key, "value": value}
    for name, side in sides.items():
        if not isinstance(side, torch.Tensor) or side.ndim < 2:
            what = tuple(side.shape) if isinstance(side, torch.Tensor) else type(side).__name__
            raise InvalidArgument(f"{name}: {what}, expected a tensor (..., heads, tokens, size)")
    if is_causal and attn_mask is not None:
        raise InvalidArgument(
            "is_causal=True with attn_mask: expected one of them, as in torch; pattern=Causal() "
            "goes with a mask"
        )
    axes = max(side.ndim for side in sides.values())
    wide = [_with_axes(side, max(3, axes)) for side in sides.values()]
    own = -3 if enable_gqa else -2  # the axes from here on are a side's own
    shared = _shared([side.shape[:own] for side in wide], sides)
    q, k, v = (_four_axes(side.expand(*shared, *side.shape[own:])) for side in wide)
    call = checked(
        q, k, v, pattern=pattern, dropout_p=dropout_p, is_causal=is_causal, scale=scale,
        enable_gqa=enable_gqa,
    )  # fmt: skip
    shape = (*shared, *wide[0].shape[own:-1])
    if attn_mask is not None:
        call = _masked(call, attn_mask, (*shape, k.shape[2]))
    out, _ = attend(call)
    return out.reshape(*shape[-axes + 1 :], v.shape[3])


def _shared(leading: list[torch.Size], sides: dict[str, torch.Tensor]) -> tuple[int, ...]:
    try:
        return tuple(torch.broadcast_shapes(*leading))
    except RuntimeError:
        shapes = ", ".join(f"{name} {tuple(side.shape)}" for name, side in sides.items())
        raise InvalidArgument(
            f"{shapes}: expected axes before the tokens that broadcast, or enable_gqa=True"
        ) from None


def _masked(call: Call, mask: torch.Tensor, full: tuple[int, ...]) -> Call:
    """The call with a mask that broadcasts to `full`, (..., H, N, M)."""
    if not isinstance(mask, torch.Tensor) or mask.ndim < 2 or not broadcasts(mask.shape, full):
        what = tuple(mask.shape) if isinstance(mask, torch.Tensor) else type(mask).__name__
        raise InvalidArgument(
            f"attn_mask: {what}, expected a tensor of two axes at least that broadcasts to {full}"
        )
    mask = _with_axes(mask, len(full))
    if any(size > 1 for size in mask.shape[:-3]):
        mask = mask.expand(*full[:-3], *mask.shape[-3:])
    else:
        mask = mask.reshape(1, *mask.shape[-3:])
    mask = _four_axes(mask)
    if mask.dtype != torch.bool:
        every = (*call.q.shape[:3], call.k.shape[2])
        return call._replace(bias=check_term("attn_mask", mask, every, call.q, 0))
    if mask.shape[1:3] == (1, 1):  # padding: it costs nothing beside a pattern
        return call._replace(key_mask=mask[:, 0, 0].expand(len(call.k), call.k.shape[2]))
    return call.also(mask)


def _with_axes(given: torch.Tensor, count: int) -> torch.Tensor:
    """With axes of size 1 in front, as many as are missing."""
    return given[(None,) * (count - given.ndim)]


def _four_axes(given: torch.Tensor) -> torch.Tensor:
    """All axes before the last three as one."""
    return given[None] if given.ndim == 3 else given.flatten(0, -4)
