"""Generation: one token after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
        if at_least_one("beams", beams) > 1:
            if sampling.temperature > 0:
                raise InvalidArgument(
                    f"beams={beams} with temperature={sampling.temperature}: a search draws "
                    "nothing; give one of the two"
                )
            return search(Writer(model, prompt, tokens, key_mask, cache), tokens, stop_ids, beams)
        writer = Writer(model, prompt, tokens, key_mask, cache)
        new = list(_ids(writer, tokens, sampling, stop_ids))
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
    """`Transformer.stream`; what is wrong with the arguments is said at once."""
    return _ids(Writer(model, prompt, tokens, key_mask, cache), tokens, sampling, stop_ids)


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
