"""Generation: one token after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import index
from typing import TYPE_CHECKING

import torch

from anyseq.base import at_least_one
from anyseq.errors import InvalidArgument
from anyseq.nn.beams import search
from anyseq.nn.sampling import Sampling
from anyseq.nn.writer import Writer, evaluating, is_one_of

if TYPE_CHECKING:
    from anyseq.nn.transformer import Transformer


def generate(
    model: Transformer,
    prompt: torch.Tensor,
    tokens: int,
    key_mask: torch.Tensor | None,
    sampling: Sampling,
    stop_ids: Sequence[int],
    beams: int,
    cache: bool,
) -> torch.Tensor:
    """`Transformer.generate`."""
    with evaluating(model):
        if at_least_one("beams", beams) > 1 and sampling.temperature > 0:
            raise InvalidArgument(
                f"beams={beams} with temperature={sampling.temperature}: a search draws nothing; "
                "give one of the two"
            )
        writer = Writer(model, prompt, tokens, key_mask, cache)
        stops = _stops(model, stop_ids)
        if beams > 1:
            return search(writer, tokens, stops, beams)
        new = list(_ids(writer, tokens, sampling, stops))
        return torch.cat([writer.prompt, torch.stack(new, dim=1)], dim=1)


def stream(
    model: Transformer,
    prompt: torch.Tensor,
    tokens: int,
    key_mask: torch.Tensor | None,
    sampling: Sampling,
    stop_ids: Sequence[int],
    cache: bool,
) -> Iterator[torch.Tensor]:
    """`Transformer.stream`; wrong arguments are an error at once."""
    writer = Writer(model, prompt, tokens, key_mask, cache)
    return _ids(writer, tokens, sampling, _stops(model, stop_ids))


def _stops(model: Transformer, stop_ids: Sequence[int]) -> list[int]:
    """The ids, each one that the model can write."""
    vocab = model.vocab or 0
    try:
        stops = [index(one) for one in stop_ids]
    except TypeError:
        stops = [vocab]
    if all(0 <= one < vocab for one in stops):
        return stops
    raise InvalidArgument(f"stop_ids={stop_ids!r}: expected a list of ids from 0 to {vocab - 1}")


def _ids(
    writer: Writer, tokens: int, sampling: Sampling, stop_ids: Sequence[int]
) -> Iterator[torch.Tensor]:
    new, ended = writer.prompt[:, -1], None
    for count in range(tokens):
        logits = writer.start() if count == 0 else writer.go_on(new)
        chosen = sampling.choose(logits).to(new.dtype)
        new = chosen if ended is None else torch.where(ended, new, chosen)
        yield new
        if stop_ids:
            ended = is_one_of(new, stop_ids)
            if bool(ended.all()):
                return
