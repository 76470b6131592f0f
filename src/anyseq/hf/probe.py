"""Does it take effect? The model is run on a few tokens, and the outputs of its attention are
compared.

Attention outputs are compared, layer by layer, not the model's own outputs: they have one row per
token whatever head the model has, and the first layer attends exactly to what the pattern allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import PreTrainedModel

from anyseq.errors import AnyseqError, UnsupportedModel
from anyseq.hf.attend import SITE, Attachment, Seen
from anyseq.hf.feed import Feed, feeds, tokens
from anyseq.hf.layers import Patterns, by_layer
from anyseq.patterns import Pattern

_SHORT, _LONG = 16, 512  # tokens: as few as show what the pattern forbids


def probe(model: PreTrainedModel, attachment: Attachment, pattern: Any) -> None:
    """Give layers their patterns; raise UnsupportedModel unless these, causality and padding take
    effect in `model`."""
    with _undisturbed(model):
        feed, record = _first_run(model, attachment)
        plain = pattern is None and attachment.gain is None
        _discover(model, attachment, record, plain=plain)
        own = [seen.site for seen in record if not seen.site.cross]
        for layer, site in enumerate(dict.fromkeys(own)):
            site.layer = layer
        attachment.patterns = by_layer(pattern, len(set(own)))
        length = _length(model, attachment)
        if feed.reads_tokens:
            _check_reach(feed, attachment, length)
            _check_padding(feed, attachment, length)
        else:  # where a patch or a moment becomes a token is the model's own business
            _watch(feed, attachment, *_two_lengths(model))


def _two_lengths(model: PreTrainedModel) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens for an encoder and for a decoder, of different lengths."""
    return tokens(model, 4)[None], tokens(model, 6)[None]


def _first_run(model: PreTrainedModel, attachment: Attachment) -> tuple[Feed, list[Seen]]:
    """What the model can be run on, and the calls it makes then."""
    problem: UnsupportedModel | None = None
    for feed in feeds(model):
        try:
            return feed, _watch(feed, attachment, *_two_lengths(model))
        except UnsupportedModel as refusal:
            if isinstance(refusal.__cause__, AnyseqError):
                raise
            problem = problem or refusal
    raise problem or UnsupportedModel(
        f"{type(model).__name__} reads {model.base_model.main_input_name}; anyseq.hf.use can probe "
        "models that read input_ids, pixel_values, input_features or input_values"
    )


def _discover(
    model: PreTrainedModel, attachment: Attachment, record: list[Seen], *, plain: bool
) -> None:
    """Find the modules that call the attention function, and which of them are cross-attention:
    those with another number of keys than of queries, as encoder and decoder lengths differ.

    plain: nothing is put on the model, so modules that do not call may stay as they are.
    """
    called = {seen.module for seen in record}
    if not called:
        raise UnsupportedModel(_bypass(model, "no layer calls"))
    for seen in record:
        seen.site.cross = seen.keys != seen.out.shape[1]
    inside = {part for module in called for part in module.modules()}
    classes = {type(module) for module in called}
    apart = _idle(model, attachment) | _pooling(model)
    for name, module in model.named_modules():
        if module not in called:
            module.__dict__.pop(SITE, None)
        if module in apart:
            continue
        # A class that calls may have modules that did not: cross-attention without an encoder.
        related = module in inside or type(module) in classes or called & set(module.modules())
        if "attention" in type(module).__name__.lower() and not related and not plain:
            raise UnsupportedModel(_bypass(model, f"{name} does not call"))


def _idle(model: PreTrainedModel, attachment: Attachment) -> set[torch.nn.Module]:
    """The modules of parts that did not run, such as the vision tower of a language model; these
    parts get their own attention back."""
    parts = [part for part in model.modules() if isinstance(part, PreTrainedModel)]
    ran = [part for part in parts if part in attachment.ran]
    shared = {id(part.config) for part in ran}
    idle = [part for part in parts if part not in ran and id(part.config) not in shared]
    original = {id(config): implementation for config, implementation in attachment.original}
    for part in idle:
        part.config._attn_implementation = original[id(part.config)]
    return {module for part in idle for module in part.modules()}


def _pooling(model: PreTrainedModel) -> set[torch.nn.Module]:
    """The modules that pool tokens after the last layer: one query of their own attends to all."""
    heads = [head for head in model.modules() if "pool" in type(head).__name__.lower()]
    return {module for head in heads for module in head.modules()}


def _check_reach(feed: Feed, attachment: Attachment, length: int) -> None:
    """One token changes, another one in each batch row: only tokens that attend to it may
    change."""
    model = feed.model
    places = torch.tensor(sorted({0, length // 4, length // 2, length - 1}))
    start = torch.arange(length) == places[:, None]
    usual = tokens(model, length).expand(start.shape)
    moved = torch.where(start.to(usual.device), tokens(model, length, 1), usual)
    plain = _watch(feed, attachment, usual, usual)
    if model.config.is_encoder_decoder:
        # Past the first cross-attention every token may notice a token of the encoder.
        encoder = next((i for i, seen in enumerate(plain) if seen.site.cross), len(plain))
        record = _watch(feed, attachment, moved, usual)
        _compare_reach(model, plain[:encoder], record[:encoder], start, attachment.patterns)
    record = _watch(feed, attachment, usual, moved)
    _compare_reach(model, plain, record, start, attachment.patterns)


def _compare_reach(
    model: PreTrainedModel,
    plain: list[Seen],
    record: list[Seen],
    reached: torch.Tensor,
    patterns: Patterns,
) -> None:
    """reached (B, N): the tokens that may differ; each layer adds those that attend to them."""
    for one, other in zip(plain, record, strict=True):
        differs = _differs(one, other)
        if not differs.any() or differs.shape != reached.shape:
            continue  # another stack, which the change does not touch, or which has other tokens
        if not one.site.cross:
            allowed = _allowed(one, None if one.site.layer is None else patterns[one.site.layer])
            reached = reached | (allowed & reached[:, None, :]).any(2)
        if (differs & ~reached).any():
            row, token = (differs & ~reached).nonzero()[0].tolist()
            raise UnsupportedModel(
                f"{type(model).__name__}: token {token} changed with a token that the pattern "
                f"or causality hides from it, in {type(one.module).__name__} (batch row "
                f"{row} of the probe); the model carries information past its attention mask"
            )


def _allowed(seen: Seen, pattern: Pattern | None) -> torch.Tensor:
    """(B, N, N): which tokens each token may attend to in one layer, in any head."""
    batch, length, heads = seen.out.shape[:3]
    allowed = torch.ones(batch, length, length, dtype=torch.bool)
    if pattern is not None:
        b = torch.arange(batch)[:, None, None, None]
        h = torch.arange(heads)[:, None, None]
        i = torch.arange(length)
        allowed &= pattern.at(length)(b, h, i[:, None], i).expand(batch, heads, -1, -1).any(1)
    # Not what the mask says, which may be wrong, but what the layer says of itself.
    config = getattr(seen.module, "config", None)
    causal = getattr(seen.module, "is_causal", False) and getattr(config, "is_causal", True)
    return allowed.tril() if causal else allowed


def _check_padding(feed: Feed, attachment: Attachment, length: int) -> None:
    """Tokens under padding change, on the left, where causality does not hide them too: no other
    token may change."""
    model = feed.model
    real = torch.arange(length, device=model.device) >= max(1, length // 4)
    usual = tokens(model, length)[None]
    moved = torch.where(real, usual, tokens(model, length, 1))
    mask = real.long()[None]
    plain = _watch(feed, attachment, usual, usual, mask)
    record = _watch(feed, attachment, moved, moved, mask)
    for one, other in zip(plain, record, strict=True):
        differs = _differs(one, other)
        if differs.shape[1] == length and (differs & real.cpu()).any():
            raise UnsupportedModel(
                f"{type(model).__name__}: a token changed with the padding, in "
                f"{type(one.module).__name__}; the padding mask does not reach its attention"
            )


def _differs(one: Seen, other: Seen) -> torch.Tensor:
    """(B, N) bool, on the CPU; the same numbers in the same places differ by rounding at most."""
    tolerance = 16 * torch.finfo(one.out.dtype).eps * one.out.abs().max()
    # Negated, so that NaN counts as a difference.
    return (~((one.out - other.out).abs() <= tolerance)).flatten(2).any(2).cpu()


def _watch(
    feed: Feed,
    attachment: Attachment,
    read: torch.Tensor,
    written: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> list[Seen]:
    """The calls of one forward pass."""
    model, inputs = feed.model, feed.inputs(read, written, mask)
    attachment.record = []
    try:
        model.base_model(**inputs)
    except AnyseqError as problem:
        raise UnsupportedModel(f"{type(model).__name__}: {problem}") from problem
    except Exception as problem:
        if isinstance(problem, NotImplementedError) and "_grouped_mm" in str(problem):
            raise UnsupportedModel(
                f"{type(model).__name__}: torch {torch.__version__} has no operator for all its "
                f"experts at once on {model.device.type}, with or without anyseq; the CPU has it "
                "from torch 2.9 on. Update torch, or call "
                'model.set_experts_implementation("eager") first'
            ) from problem
        raise UnsupportedModel(
            f"{type(model).__name__} could not be run on {sorted(inputs)}: {problem}"
        ) from problem
    else:
        return attachment.record
    finally:
        attachment.record = None


def _length(model: PreTrainedModel, attachment: Attachment) -> int:
    """How many tokens the probe takes: enough to see that every pattern forbids something."""
    patterns = [pattern for pattern in set(attachment.patterns) if pattern is not None]
    fitting = {one.natural_length for one in patterns} - {None}
    if fitting:
        return max(length for length in fitting if length is not None)
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None) or _LONG
    if attachment.gain is not None:
        table: Any = attachment.gain.coefficients
        limit = min(limit, table.shape[1] // 2 + 1)
    length = min(_SHORT, limit)
    while 2 * length < min(_LONG, limit) and any(_hides_nothing(one, length) for one in patterns):
        length *= 2
    return length


def _hides_nothing(pattern: Pattern, length: int) -> bool:
    return bool(pattern.mask(length).tril().equal(torch.ones(length, length).tril().bool()))


@contextmanager
def _undisturbed(model: PreTrainedModel) -> Iterator[None]:
    """Evaluation without gradients; afterwards modes and random numbers are as they were."""
    training = [module for module in model.modules() if module.training]
    devices = [] if model.device.type == "cpu" else [model.device]
    try:
        with torch.no_grad(), torch.random.fork_rng(devices, device_type=model.device.type):
            model.eval()
            yield
    finally:
        for module in training:
            module.training = True


def _bypass(model: PreTrainedModel, what: str) -> str:
    return (
        f"{type(model).__name__}: {what} transformers' AttentionInterface, so a pattern or gain "
        "would have no effect there; choose a model whose attention does (BERT, RoBERTa, GPT-2, "
        "Llama, T5, ...)"
    )
