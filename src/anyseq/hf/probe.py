"""Does it take effect? The model is run on a few tokens, and what its attention gives is watched.

Attention outputs are compared, layer by layer, not the model's own outputs: they have one row per
token whatever head the model has, and the first layer sees exactly what the pattern allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import PreTrainedModel

from anyseq.errors import AnyseqError, UnsupportedModel
from anyseq.hf.attend import SITE, Attachment, Seen
from anyseq.patterns import Pattern

_SHORT, _LONG = 16, 512  # tokens: as few as show what the pattern forbids


def probe(model: PreTrainedModel, attachment: Attachment) -> None:
    """Raise UnsupportedModel unless pattern, causality and padding take effect in `model`."""
    if model.main_input_name != "input_ids":
        raise UnsupportedModel(
            f"{type(model).__name__} reads {model.main_input_name}; anyseq.hf.use can probe models "
            "that read input_ids"
        )
    length = _length(model, attachment)
    with _undisturbed(model):
        _discover(model, attachment)
        _check_reach(model, attachment, length)
        _check_padding(model, attachment, length)


def _discover(model: PreTrainedModel, attachment: Attachment) -> None:
    """Find the modules that call the attention function, and which of them are cross-attention:
    those with another number of keys than of queries, as encoder and decoder lengths differ."""
    record = _watch(model, attachment, _tokens(model, 4)[None], _tokens(model, 6)[None])
    called = {seen.module for seen in record}
    if not called:
        raise UnsupportedModel(_bypass(model, "no layer calls"))
    for seen in record:
        seen.site.cross = seen.keys != seen.out.shape[1]
    inside = {part for module in called for part in module.modules()}
    classes = {type(module) for module in called}
    for name, module in model.named_modules():
        if module not in called:
            module.__dict__.pop(SITE, None)
        # A class that calls may have modules that did not: cross-attention without an encoder.
        related = module in inside or type(module) in classes or called & set(module.modules())
        if "attention" in type(module).__name__.lower() and not related:
            raise UnsupportedModel(_bypass(model, f"{name} does not call"))


def _check_reach(model: PreTrainedModel, attachment: Attachment, length: int) -> None:
    """One token changes, another one in each batch row: only who can see it may notice."""
    places = torch.tensor(sorted({0, length // 4, length // 2, length - 1}))
    start = torch.arange(length) == places[:, None]
    tokens = _tokens(model, length).expand(start.shape)
    moved = torch.where(start.to(tokens.device), _tokens(model, length, 1), tokens)
    plain = _watch(model, attachment, tokens, tokens)
    if model.config.is_encoder_decoder:
        # Past the first cross-attention every token may notice a token of the encoder.
        encoder = next(i for i, seen in enumerate(plain) if seen.site.cross)
        record = _watch(model, attachment, moved, tokens)
        _compare_reach(model, plain[:encoder], record[:encoder], start, attachment.pattern)
    record = _watch(model, attachment, tokens, moved)
    _compare_reach(model, plain, record, start, attachment.pattern)


def _compare_reach(
    model: PreTrainedModel,
    plain: list[Seen],
    record: list[Seen],
    reached: torch.Tensor,
    pattern: Pattern | None,
) -> None:
    """reached (B, N): the tokens that may differ; each layer adds those that look at them."""
    for one, other in zip(plain, record, strict=True):
        differs = _differs(one, other)
        if not differs.any():
            continue  # another stack, which the change does not touch
        if not one.site.cross:
            allowed = _allowed(one, pattern)
            reached = reached | (allowed & reached[:, None, :]).any(2)
        if (differs & ~reached).any():
            row, token = (differs & ~reached).nonzero()[0].tolist()
            raise UnsupportedModel(
                f"{type(model).__name__}: token {token} noticed a change of a token that the "
                f"pattern or causality hides from it, in {type(one.module).__name__} (batch row "
                f"{row} of the probe); the model carries information past its attention mask"
            )


def _allowed(seen: Seen, pattern: Pattern | None) -> torch.Tensor:
    """(B, N, N): who may look at whom in one layer, in any head."""
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


def _check_padding(model: PreTrainedModel, attachment: Attachment, length: int) -> None:
    """Tokens under padding change, on the left, where causality does not hide them too: no other
    token may notice."""
    real = torch.arange(length, device=model.device) >= max(1, length // 4)
    tokens = _tokens(model, length)[None]
    moved = torch.where(real, tokens, _tokens(model, length, 1))
    mask = real.long()[None]
    plain = _watch(model, attachment, tokens, tokens, mask)
    record = _watch(model, attachment, moved, moved, mask)
    for one, other in zip(plain, record, strict=True):
        if (_differs(one, other) & real.cpu()).any():
            raise UnsupportedModel(
                f"{type(model).__name__}: a token noticed a change of padding, in "
                f"{type(one.module).__name__}; the padding mask does not reach its attention"
            )


def _differs(one: Seen, other: Seen) -> torch.Tensor:
    """(B, N) bool, on the CPU; the same numbers in the same places differ by rounding at most."""
    tolerance = 16 * torch.finfo(one.out.dtype).eps * one.out.abs().max()
    # Negated, so that NaN counts as a difference.
    return (~((one.out - other.out).abs() <= tolerance)).flatten(2).any(2).cpu()


def _watch(
    model: PreTrainedModel,
    attachment: Attachment,
    read: torch.Tensor,
    written: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> list[Seen]:
    """The calls of one forward; `read` goes to the encoder of an encoder-decoder, `written`
    to its decoder, or to the only stack that there is."""
    config = model.config
    inputs: dict[str, Any] = {"input_ids": written, "attention_mask": mask}
    if config.is_encoder_decoder:
        inputs = {"input_ids": read, "attention_mask": mask}
        inputs |= {"decoder_input_ids": written, "decoder_attention_mask": mask}
    elif getattr(config, "add_cross_attention", False):
        inputs["encoder_hidden_states"] = model.get_input_embeddings()(_tokens(model, 5)).expand(
            len(written), -1, -1
        )
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


def _tokens(model: PreTrainedModel, length: int, shift: int = 0) -> torch.Tensor:
    """(length,) token numbers, none of them special; with another shift all are others."""
    config = model.config.get_text_config()
    names = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
    special = {getattr(config, name, None) for name in names}
    usual = [token for token in range(min(config.vocab_size, 64)) if token not in special]
    return torch.tensor(
        [usual[(i + shift) % len(usual)] for i in range(length)], device=model.device
    )


def _length(model: PreTrainedModel, attachment: Attachment) -> int:
    """How many tokens the probe takes: enough to see that the pattern forbids something."""
    pattern = attachment.pattern
    if pattern is not None and pattern.natural_length is not None:
        return pattern.natural_length
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", _LONG)
    if attachment.gain is not None:
        limit = min(limit, attachment.gain.coefficients.shape[1] // 2 + 1)
    length = min(_SHORT, limit)
    while pattern is not None and 2 * length < min(_LONG, limit):
        if not pattern.mask(length).tril().equal(torch.ones(length, length).tril().bool()):
            break
        length *= 2
    return length


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
