"""What the one output that is read tells of a sequence, by random networks of the design."""

from __future__ import annotations

from itertools import product

import torch

import anyseq as aq
from verdicts.networks import random_network

SAME = 1e-9  # of outputs whose largest is 1


def reads(design: aq.Design, certificate: aq.Certificate) -> None:
    """Over all sequences of two values the output differs wherever what it may depend on does."""
    readout, n = design.readout, design.tokens
    place = n - 1 if readout == "last" else int(readout)
    words = list(product([0, 1], repeat=n))
    out = _outputs(design, torch.tensor(words))[:, place]
    heard = [word[: place + 1] if certificate.target == "causal" else word for word in words]
    first = [heard.index(one) for one in heard]
    apart = torch.cdist(out, out, p=torch.inf) > SAME
    different = torch.tensor([[a != b for b in first] for a in first])
    assert not (different & ~apart).any()


def _outputs(design: aq.Design, words: torch.Tensor) -> torch.Tensor:
    """(words, n, features) of several deep random networks, each feature of size 1."""
    x = 0.2 + 0.7 * words.double()
    found = []
    for seed in range(4):
        model = random_network(design, seed, depth=design.tokens + 2, dim=16, heads=4)
        with torch.no_grad():
            found.append(model(x[..., None].expand(-1, -1, model.dim).contiguous()))
    out = torch.cat(found, dim=-1)
    scale = out.abs().amax((0, 1))
    return out / scale.where(scale > 0, 1.0)
