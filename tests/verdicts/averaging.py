"""The sum construction carried out: one layer of a design that averages over all tokens."""

from __future__ import annotations

import torch
from torch.nn.functional import one_hot, pad

import anyseq as aq
from verdicts.heads import Heads


def multisets(design: aq.Design, layer: int, x: torch.Tensor, steps: int) -> torch.Tensor:
    """(B, n) -> (B, n, n): the tokens of the sequence as every token knows them, in ascending order
    and rounded to 1/steps.

    φ is the cell of a token, as a unit vector, and ψ reads off the mean how often each cell occurs.
    BOS and sinks take a share of the weight, which a feature that is 1 at every token shows.
    """
    cells, bos, n = steps + 1, int(design.bos), design.tokens
    phi = pad(one_hot((x * steps).round().long(), cells).double(), (0, 1), value=1.0)
    parts = design.cycle[layer].heads()
    full = next(h for h, part in enumerate(parts) if bool(part.mask(n + bos).all()))
    room = cells + 1 + (cells + 1) % 2
    heads = Heads(design, layer, features=cells + 1, heads=len(parts), size=room)
    heads.weight("v")[:, : cells + 1] = torch.eye(cells + 1)
    mean = heads(pad(phi, (0, 0, bos, 0)))[:, bos:, full, : cells + 1]
    counts = n * mean[..., :-1] / mean[..., -1:]
    whole = counts.round()
    assert (counts - whole).abs().max() < 1e-9
    values = torch.arange(cells, dtype=torch.float64).expand(n, -1).flatten() / steps
    rows = whole.flatten(0, 1).long()
    found = torch.stack([values[:cells].repeat_interleave(row) for row in rows])
    return found.view(len(x), n, n)
