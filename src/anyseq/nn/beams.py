"""Beam search: several continuations of each prompt, of which the likeliest is given."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from anyseq.nn.writer import Writer, is_one_of


def search(writer: Writer, tokens: int, stop_ids: Sequence[int], beams: int) -> torch.Tensor:
    """(batch, n + tokens) ids, or less if the likeliest of every row end sooner.

    A beam's score is the logarithm of the probability of its new ids; one that has ended keeps its
    score and is filled up with its last id.
    """
    batch, device = len(writer.prompt), writer.prompt.device
    logits = writer.start()
    writer.take(torch.arange(batch, device=device).repeat_interleave(beams))
    logits = logits.repeat_interleave(beams, 0)
    # all beams of a row begin alike: only the first counts
    score = logits.new_full((batch, beams), -torch.inf)
    score[:, 0] = 0.0
    new = writer.prompt.new_zeros(batch * beams, 0)
    ended = torch.zeros(batch * beams, dtype=torch.bool, device=device)
    for count in range(tokens):
        if count:
            logits = writer.go_on(new[:, -1])
        vocab = logits.shape[1]
        gained = logits.log_softmax(-1)
        if count:
            stays = torch.full_like(gained, -torch.inf).scatter(1, new[:, -1:].long(), 0.0)
            gained = torch.where(ended[:, None], stays, gained)
        score, best = (score[..., None] + gained.view(batch, beams, vocab)).flatten(1).topk(beams)
        rows = (torch.arange(batch, device=device)[:, None] * beams + best // vocab).flatten()
        chosen = (best % vocab).flatten().to(new.dtype)
        writer.take(rows)
        new = torch.cat([new[rows], chosen[:, None]], dim=1)
        if stop_ids:
            ended = is_one_of(chosen, stop_ids)
            if bool(ended.view(batch, beams)[:, 0].all()):  # the first of a row is the likeliest
                break
    first = torch.arange(batch, device=device) * beams
    return torch.cat([writer.prompt[first], new[first]], dim=1)
