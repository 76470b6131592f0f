"""The model as a whole: which outputs change when one token does, against how far the declared
layers can carry it."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from anyseq.models.faults.claims import Claims
from anyseq.models.faults.entrance import entrance
from anyseq.models.faults.fault import Fault
from anyseq.models.faults.influence import TRIALS, influence, worst
from anyseq.models.faults.rule import Asked, NotChecked, Note
from anyseq.models.faults.snippets import changed_token


def outputs(asked: Asked) -> Iterator[Fault | Note]:
    """Outputs that depend on tokens that no path of the declared layers leads from."""
    subject, claims = asked.subject, asked.claims
    reach = reachable(claims, subject.tokens)
    if reach is None and not claims.causal:
        raise NotChecked("nothing is declared of the model as a whole")
    x = subject.draw()
    effect = torch.stack([influence(subject, x, seed=1 + trial) for trial in range(TRIALS)]).amax(0)
    later = torch.ones_like(effect).triu(1).bool()
    if claims.causal and (effect[later] > 0).any():
        pair, size = worst(effect * later)
        i, j = pair
        name = entrance(subject, x, pair)
        yield Fault(
            "future", f"output {i} of the model changes with the later token {j}", (), name, pair,
            size, changed_token(subject, x, pair),
            "look at what works along the tokens: masks, shifts, convolutions, norms, routers",
        )  # fmt: skip
    allowed = torch.ones_like(later) if reach is None else reach
    beyond = effect * ~(allowed | later if claims.causal else allowed)
    if (beyond > 0).any():
        pair, size = worst(beyond)
        i, j = pair
        yield Fault(
            "window", f"output {i} of the model changes with token {j}, from which no path of the "
            "declared layers leads to it", (), "", pair, size, changed_token(subject, x, pair),
        )  # fmt: skip


def reachable(claims: Claims, tokens: int) -> torch.Tensor | None:
    """(tokens, tokens) bool: [i, j] whether the declared layers, one after the other, can carry
    content from token j to output i; None where a layer's pattern, or their number, is unknown."""
    if claims.repeated and len(claims.layers) > 1:
        return None
    reach = torch.eye(tokens)
    for claim in claims.layers:
        if claim.pattern is None:
            return None
        mask = claim.pattern.mask(tokens).float() + torch.eye(tokens)
        for _ in range(tokens if claims.repeated else 1):
            wider = ((mask @ reach) > 0).float()
            if wider.equal(reach):
                break
            reach = wider
    return reach > 0
