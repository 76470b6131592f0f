"""The checks of a call: everything that can be wrong with it, each with its error."""

from __future__ import annotations

from math import isnan

import numpy as np
import torch

from anyseq.base import finite, positive, whole
from anyseq.errors import InvalidArgument
from anyseq.ops.call import Call, ScoreMod, Term, may_look
from anyseq.ops.other_names import unknown_argument
from anyseq.patterns import FromMask, MaskMod, Pattern, PatternLike, named, resolve
from anyseq.positions import GridToeplitz, Toeplitz
from anyseq.probability import ProbMap, resolve_prob_map


def checked(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    pattern: PatternLike = None,
    key_mask: torch.Tensor | None = None,
    document_ids: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
    bias: Term | None = None,
    gain: Term | None = None,
    softcap: float | None = None,
    score_mod: ScoreMod | None = None,
    weight_mod: ScoreMod | None = None,
    prob_map: str | ProbMap = "softmax",
    scale: float | None = None,
    is_causal: bool = False,
    enable_gqa: bool = False,
    dropout_p: float = 0.0,
    q_offset: int = 0,
    return_lse: bool = False,
    **unknown: object,
) -> Call:
    """The call, if its arguments fit together; they are those of `attention`."""
    for name in unknown:
        raise unknown_argument(name, (checked.__kwdefaults__ or {}))
    if not _fit(q, k, v, enable_gqa):
        raise InvalidArgument(_misfit(q, k, v))
    # types first, which is quick: these checks are part of every call
    if type(q_offset) is not int or q_offset < 0:
        whole("q_offset", q_offset)
    for name, hook in (("score_mod", score_mod), ("weight_mod", weight_mod)):
        if hook is not None and not callable(hook):
            raise InvalidArgument(f"{name}={hook!r}: expected a function (score, b, h, i, j)")
    if not isinstance(is_causal, bool):
        raise InvalidArgument(f"is_causal={is_causal!r}: expected True or False")
    share = dropout_p if type(dropout_p) is float else finite("dropout_p", dropout_p)
    if not 0.0 <= share < 1.0:
        raise InvalidArgument(f"dropout_p={dropout_p!r}: expected a number in [0, 1)")
    full = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    named, mask, mask_mod = who(pattern, full, q_offset, q.device)
    if cu_seqlens is not None:
        if document_ids is not None:
            raise InvalidArgument("cu_seqlens with document_ids: expected one of them")
        document_ids = documents_of(cu_seqlens, len(k), k.shape[2])
    return Call(  # by place, which is quicker than by name
        q, k, v, named, mask, mask_mod,
        None if key_mask is None else check_key_mask(key_mask, k),
        None if document_ids is None else check_documents(document_ids, full, q_offset, k),
        None if bias is None else check_term("bias", bias, full, q, q_offset),
        None if gain is None else check_term("gain", gain, full, q, q_offset),
        None if softcap is None else positive("softcap", softcap),
        score_mod,
        weight_mod,
        resolve_prob_map(prob_map),
        q.shape[3] ** -0.5 if scale is None else finite("scale", scale),
        is_causal,
        dropout_p,
        q_offset,
        return_lse,
    )  # fmt: skip


def check_result(call: Call, out: torch.Tensor) -> None:
    """A NaN in the output is an error that names the argument it came from, where values may be
    read."""
    if not may_look(out):
        return
    if not _holds_nan(out.detach()):
        return
    given = {"q": call.q, "k": call.k, "v": call.v, "bias": call.bias, "gain": call.gain}
    for name, term in given.items():
        values = term.coefficients if isinstance(term, Toeplitz | GridToeplitz) else term
        if values is None:
            continue
        # A bias of -inf is a mask.
        infinite = values == torch.inf if name == "bias" else values.isinf()
        for what, found in (("NaN", values.isnan()), ("inf", infinite)):
            if bool(found.any()):
                places = found.nonzero()
                raise InvalidArgument(
                    f"{name} holds {what} at {tuple(places[0].tolist())}, {len(places)} in all: "
                    "expected finite numbers"
                )
    raise InvalidArgument(f"the output holds NaN although no input does: {_reason(call, out)}")


def _holds_nan(out: torch.Tensor) -> bool:
    """A maximum is NaN if a number is. numpy's runs in this thread: torch would share it out, and a
    wait for threads that other work keeps busy takes longer than short attention."""
    if out.dtype in (torch.float32, torch.float64) and out.numel():
        return isnan(np.max(out.numpy()))
    return bool(out.isnan().any())


def _reason(call: Call, out: torch.Tensor) -> str:
    """Where a NaN comes from that no input holds: recomputed in float64, in its row alone."""
    b, h, i = out.isnan().nonzero()[0, :3]
    side = int(h) * call.k.shape[1] // call.q.shape[1]
    keys, query = call.k.detach()[int(b), side], call.q.detach()[int(b), int(h), int(i)]
    scores = keys.double() @ query.double()
    largest = float((scores * max(1.0, abs(call.scale))).abs().max())
    where = f"query {int(i)} of head {int(h)}, batch row {int(b)}"
    if largest > torch.finfo(call.q.dtype).max:
        return (
            f"the scores of {where}, up to {largest:.3g}, overflow {call.q.dtype}; use smaller "
            "inputs, a smaller scale or float64"
        )
    scaled = (scores * call.scale).to(call.q.dtype)
    j = torch.arange(len(scores), device=scores.device)
    if call.score_mod is not None and bool(
        call.score_mod(scaled, b, h, i + call.q_offset, j).isnan().any()
    ):
        return f"score_mod gives NaN for {where}; it must not"
    if call.score_mod is not None or call.weight_mod is not None:
        names = [name for name in ("score_mod", "weight_mod") if getattr(call, name) is not None]
        return f"{' or '.join(names)} gives NaN, or what overflows, for {where}; it must not"
    return (
        f"scores and bias, or values and gain, of {where} overflow {call.q.dtype} together; use "
        "smaller ones, or float64"
    )


def _fit(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, enable_gqa: bool) -> bool:
    """Whether q, k and v fit together: one test of each, since it is part of every call."""
    if not (isinstance(q, torch.Tensor) and isinstance(k, torch.Tensor)):
        return False
    if not isinstance(v, torch.Tensor) or not q.ndim == k.ndim == v.ndim == 4:
        return False
    batch, heads, _, size = q.shape
    sides, groups, keys, key_size = k.shape
    if batch != sides or size != key_size or v.shape[:3] != (sides, groups, keys):
        return False
    if not (heads and groups and size):
        return False
    if heads != groups and not (enable_gqa and heads % groups == 0):
        return False
    dtype, device = q.dtype, q.device
    alike = k.dtype == v.dtype == dtype and k.device == v.device == device
    return alike and dtype.is_floating_point


def _misfit(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> str:
    """What is wrong with q, k and v that do not fit together."""
    sides = {"q": q, "k": k, "v": v}
    if not all(isinstance(side, torch.Tensor) for side in sides.values()):
        kinds = ", ".join(f"{name} {type(side).__name__}" for name, side in sides.items())
        return f"{kinds}: expected three tensors"
    if q.ndim != 4 or k.ndim != 4 or v.ndim != 4:
        hint = "; q[None] adds a batch axis" if q.ndim == k.ndim == v.ndim == 3 else ""
        return f"{_shapes(sides)}: expected (batch, heads, tokens, features) each{hint}"
    if q.shape[0] != k.shape[0] or k.shape[:3] != v.shape[:3] or q.shape[3] != k.shape[3]:
        return (
            f"{_shapes(sides)}: expected q (B, H, N, D), k (B, H, M, D), v (B, H, M, E) with equal "
            "B, M, D"
        )
    if 0 in (q.shape[1], k.shape[1], q.shape[3]):
        return f"{_shapes(sides)}: expected one head and one feature at least"
    if not q.device == k.device == v.device:
        return f"q on {q.device}, k on {k.device}, v on {v.device}: expected one"
    if not q.dtype == k.dtype == v.dtype or not q.dtype.is_floating_point:
        return f"q {q.dtype}, k {k.dtype}, v {v.dtype}: expected one floating-point dtype"
    return (
        f"{_shapes(sides)}: q has {q.shape[1]} heads, k and v have {k.shape[1]}; expected equal "
        "numbers, or enable_gqa=True and a divisor"
    )


def _shapes(sides: dict[str, torch.Tensor]) -> str:
    return ", ".join(f"{name} {tuple(side.shape)}" for name, side in sides.items())


def who(
    pattern: PatternLike, full: tuple[int, int, int, int], q_offset: int, device: torch.device
) -> tuple[Pattern | None, torch.Tensor | None, MaskMod | None]:
    """Which tokens each token may attend to: a Pattern, a mask with four axes, a function, or
    None."""
    if pattern is None:
        return None, None, None
    span = max(full[3], q_offset + full[2])
    pattern = named(pattern)
    if isinstance(pattern, Pattern):
        length = pattern.natural_length
        if length is not None and length != span:
            raise InvalidArgument(
                f"pattern: {type(pattern).__name__} fits {length} tokens, the sequence has {span}"
            )
        # Tiles are those of a head, in all batch rows.
        return (None, None, pattern.at(span)) if pattern.differs else (pattern, None, None)
    mask_mod = resolve(pattern, span)
    if isinstance(pattern, torch.Tensor):
        _check_mask(pattern, full)
        _check_device("pattern", pattern, device)
        return None, _four_axes(pattern), None
    if hasattr(pattern, "mask_mod"):
        _check_block_mask(tuple(pattern.shape), full, q_offset, span)
        whole = tuple(pattern.shape) == (1, 1, span, span)
        if whole and not (same := FromMask(pattern)).differs:
            return same, None, None
    return None, None, mask_mod


def _check_block_mask(
    shape: tuple[int, ...], full: tuple[int, int, int, int], q_offset: int, span: int
) -> None:
    """A BlockMask is for these queries and keys, or for the whole sequence."""
    fits = [(span, span)] if q_offset else [full[2:], (span, span)]
    if shape[2:] not in fits or not broadcasts(shape[:2], full[:2]):
        raise InvalidArgument(
            f"pattern: a BlockMask of shape {shape}; expected batch and heads {full[:2]} or 1, and "
            f"queries and keys {' or '.join(map(str, dict.fromkeys(fits)))}"
        )


def _check_mask(mask: torch.Tensor, full: tuple[int, int, int, int]) -> None:
    """A mask tensor has all its rows and columns; batch and heads may be 1, or missing."""
    shape = tuple(mask.shape)
    if shape != full[2:] and shape == (full[0], full[3]):
        raise InvalidArgument(
            f"pattern: a mask of shape {shape} = (B, M); for padding use key_mask=, True = "
            "may be attended "
            "to"
        )
    if shape[-2:] != full[2:] or not broadcasts(shape, full):
        raise InvalidArgument(
            f"pattern: a mask of shape {shape}; expected (N, M) = {full[2:]}, or with heads and "
            f"batch before it: (B, H, N, M) = {full}"
        )


def check_key_mask(key_mask: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    expected = (k.shape[0], k.shape[2])
    if not isinstance(key_mask, torch.Tensor):
        raise InvalidArgument(f"key_mask: {type(key_mask).__name__}, expected a bool tensor")
    if key_mask.dtype != torch.bool or key_mask.shape != expected:
        raise InvalidArgument(
            f"key_mask of dtype {key_mask.dtype} and shape {tuple(key_mask.shape)}: expected bool "
            f"of shape (B, M) = {expected}, True = may be attended to"
        )
    _check_device("key_mask", key_mask, k.device)
    return key_mask


def check_documents(
    ids: torch.Tensor, full: tuple[int, int, int, int], q_offset: int, k: torch.Tensor
) -> torch.Tensor:
    expected = (k.shape[0], k.shape[2])
    if not isinstance(ids, torch.Tensor) or ids.dtype.is_floating_point or ids.is_complex():
        what = ids.dtype if isinstance(ids, torch.Tensor) else type(ids).__name__
        raise InvalidArgument(f"document_ids: {what}, expected a tensor of integers")
    if ids.shape != expected:
        raise InvalidArgument(
            f"document_ids of shape {tuple(ids.shape)}: expected (B, M) = {expected}, the document "
            "of every key"
        )
    if q_offset + full[2] > full[3]:
        raise InvalidArgument(
            f"document_ids: queries {q_offset} to {q_offset + full[2] - 1} are tokens beyond the "
            f"{full[3]} keys, and have no document; expected q_offset + N <= M"
        )
    _check_device("document_ids", ids, k.device)
    return ids.long()


def documents_of(cu_seqlens: torch.Tensor, rows: int, tokens: int) -> torch.Tensor:
    """(rows, tokens): document d is the tokens cu_seqlens[d], ..., cu_seqlens[d + 1] - 1."""
    if not isinstance(cu_seqlens, torch.Tensor) or cu_seqlens.dtype not in (
        torch.int32,
        torch.int64,
    ):
        what = cu_seqlens.dtype if isinstance(cu_seqlens, torch.Tensor) else type(cu_seqlens)
        raise InvalidArgument(f"cu_seqlens: {what}, expected an int32 or int64 tensor")
    if cu_seqlens.ndim != 1 or len(cu_seqlens) < 2:
        raise InvalidArgument(
            f"cu_seqlens of shape {tuple(cu_seqlens.shape)}: expected (documents + 1,)"
        )
    if may_look(cu_seqlens):
        ends = cu_seqlens[[0, -1]].tolist()
        if ends != [0, tokens] or bool((cu_seqlens.diff() < 0).any()):
            raise InvalidArgument(
                f"cu_seqlens from {ends[0]} to {ends[1]}: expected numbers that grow from 0 to the "
                f"{tokens} keys"
            )
    place = torch.arange(tokens, device=cu_seqlens.device, dtype=cu_seqlens.dtype)
    return torch.searchsorted(cu_seqlens, place, right=True).expand(rows, tokens)


def check_term(
    name: str, term: Term, full: tuple[int, int, int, int], q: torch.Tensor, q_offset: int
) -> Term:
    if isinstance(term, torch.Tensor) and _is_whole(term, full, q):
        return term  # what layers share is of that kind, and small ones spend their time on checks
    tables = (Toeplitz, GridToeplitz) if name == "bias" else (Toeplitz,)
    values = term.coefficients if isinstance(term, tables) else term
    if not isinstance(values, torch.Tensor) or not values.dtype.is_floating_point:
        what = values.dtype if isinstance(values, torch.Tensor) else type(term).__name__
        kinds = " or ".join(f"a {kind.__name__}" for kind in tables)
        raise InvalidArgument(f"{name}: {what}, expected a floating-point tensor or {kinds}")
    _check_device(name, values, q.device)
    if isinstance(term, Toeplitz | GridToeplitz):
        if len(values) not in (1, full[1]):
            kind = type(term).__name__
            raise InvalidArgument(f"{name}: {kind} of {len(values)} heads, expected 1 or {full[1]}")
        term.check_reach(full[2], full[3], q_offset, name)
        return term
    if not broadcasts(tuple(values.shape), full):
        raise InvalidArgument(
            f"{name} of shape {tuple(values.shape)}: expected one that broadcasts to "
            f"(B, H, N, M) = {full}"
        )
    return _four_axes(values)


def _is_whole(term: torch.Tensor, full: tuple[int, int, int, int], q: torch.Tensor) -> bool:
    """Whether it is as it should be: (B, H, N, M) or (1, H, N, M), and fits q."""
    fits = term.shape == full or term.shape == (1, *full[1:])
    return fits and term.dtype == q.dtype and term.device == q.device


def _check_device(name: str, given: torch.Tensor, device: torch.device) -> None:
    if given.device != device:
        raise InvalidArgument(f"{name} on {given.device}, q on {device}: expected one device")


def broadcasts(shape: tuple[int, ...], full: tuple[int, ...]) -> bool:
    """Whether a tensor of that shape broadcasts to the full one."""
    if shape == full:
        return True
    if len(shape) > len(full):
        return False
    ends = zip(reversed(shape), reversed(full), strict=False)
    return all(size in (1, whole_size) for size, whole_size in ends)


def _four_axes(given: torch.Tensor) -> torch.Tensor:
    if given.ndim == 4:
        return given
    return given.reshape((1,) * (4 - given.ndim) + tuple(given.shape))
