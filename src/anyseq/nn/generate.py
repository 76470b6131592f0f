"""Generation: one token after the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from anyseq.base import at_least_one, non_negative
from anyseq.errors import InvalidArgument
from anyseq.nn.attention import Attention
from anyseq.nn.cache import Cache, keeps_its_past
from anyseq.patterns import FromMask, Pattern, PatternLike

if TYPE_CHECKING:
    from anyseq.nn.transformer import Transformer


@torch.no_grad()
def generate(
    model: Transformer,
    prompt: torch.Tensor,
    tokens: int,
    *,
    temperature: float,
    generator: torch.Generator | None,
    cache: bool,
) -> torch.Tensor:
    """`Transformer.generate`."""
    _check(model, prompt, tokens, temperature, generator)
    design = model.design
    if cache:
        _check_cache(model)
    memory = Cache(len(model.blocks), design.size) if cache else None
    ids, unseen = prompt, prompt
    with _evaluating(model):
        for _ in range(tokens):
            logits = model(unseen if cache else ids, cache=memory)[:, -1]
            unseen = _choose(logits, temperature, generator).to(ids.dtype)
            ids = torch.cat([ids, unseen], dim=1)
    return ids


def _choose(
    logits: torch.Tensor, temperature: float, generator: torch.Generator | None
) -> torch.Tensor:
    """(batch, 1) ids from logits (batch, vocab)."""
    if temperature == 0:
        return logits.argmax(-1, keepdim=True)
    return torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout; afterwards the model is as it was."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def _check(
    model: Transformer,
    prompt: torch.Tensor,
    tokens: int,
    temperature: float,
    generator: torch.Generator | None,
) -> None:
    if not model.causal or model.vocab is None:
        raise InvalidArgument(
            f"generate: the model has causal={model.causal}, vocab={model.vocab}; only a causal "
            "model of ids can generate: Transformer(..., causal=True, vocab=...)"
        )
    if prompt.ndim != 2 or prompt.shape[1] == 0:
        raise InvalidArgument(
            f"prompt of shape {tuple(prompt.shape)}: expected (batch, tokens), one token or more"
        )
    total = prompt.shape[1] + at_least_one("tokens", tokens)
    if total > model.design.tokens:
        raise InvalidArgument(
            f"tokens={tokens} after a prompt of {prompt.shape[1]} make {total}, the design has "
            f"tokens={model.design.tokens}"
        )
    if non_negative("temperature", temperature) > 0 and generator is None:
        raise InvalidArgument(
            f"temperature={temperature} draws ids: give generator, a torch.Generator"
        )


def _check_cache(model: Transformer) -> None:
    for block in model.blocks:
        given = _pattern(block.mixer)
        pattern = given if isinstance(given, Pattern | None) else FromMask(given)
        if pattern is not None and not keeps_its_past(pattern):
            raise InvalidArgument(
                f"cache=True: rows of pattern {pattern!r} may change as the sequence grows, so old "
                "keys and values cannot be kept; give cache=False"
            )


def _pattern(mixer: Any) -> PatternLike:
    """What the mixer of a block sees by; None if by no pattern."""
    if isinstance(mixer, Attention):
        return mixer.pattern
    return mixer.sight.pattern if hasattr(mixer, "sight") else None
