"""The model as a whole: which outputs change with one token, compared with how far the declared
layers can carry it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from anyseq.models.faults.claims import Claims
from anyseq.models.faults.entrance import entrance
from anyseq.models.faults.fault import Fault
from anyseq.models.faults.influence import TRIALS, influence, worst
from anyseq.models.faults.rule import Asked, NotChecked, Note
from anyseq.models.faults.snippets import changed_token
from anyseq.models.faults.subject import Subject
from anyseq.models.faults.subjects import weights

LONGER = (130, 64)
"""The number of tokens of one more run: some code takes another path from 64 or 128 tokens on."""
MOST_WEIGHTS = 5_000_000
"""Of models that are run on so many as well: each of them is changed once."""


def outputs(asked: Asked) -> Iterator[Fault | Note]:
    """Outputs that depend on tokens that no path of the declared layers leads from."""
    subject, claims = asked.subject, asked.claims
    if not (claims.causal or reachable(claims, subject.tokens) is not None):
        raise NotChecked("nothing is declared about the model as a whole")
    found = list(_of(subject, claims, TRIALS))
    if not found and (longer := _longer(subject, claims)) is not None:
        found = list(_of(longer, claims, 1))
    yield from found


def _longer(subject: Subject, claims: Claims) -> Subject | None:
    """The same on more tokens; None if it takes no more, or if that would take long."""
    given = any(one.pattern and one.pattern.natural_length for one in claims.layers)
    if given or weights(subject.module) > MOST_WEIGHTS:
        return None
    for tokens in LONGER:
        longer = replace(subject, tokens=tokens)
        try:
            longer.run(longer.draw())
        except Exception:  # its table of positions ends before
            continue
        return longer if tokens > subject.tokens else None
    return None


def _of(subject: Subject, claims: Claims, trials: int) -> Iterator[Fault]:
    """trials: contents that each token gets one after the other."""
    x = subject.draw()
    effects = torch.stack([influence(subject, x, seed=1 + trial) for trial in range(trials)])
    later = torch.ones_like(effects[0]).triu(1).bool()
    if claims.causal and (effects[:, later] > 0).any():
        trial, pair, size = _worst(effects * later)
        i, j = pair
        name = entrance(subject, x, pair, 1 + trial)
        yield Fault(
            "future", f"output {i} of the model changes with the later token {j}", (), name, pair,
            size, changed_token(subject, x, pair, 1 + trial),
            "check what acts along the tokens: masks, shifts, convolutions, norms, routers",
        )  # fmt: skip
    reach = reachable(claims, subject.tokens)
    allowed = torch.ones_like(later) if reach is None else reach
    beyond = effects * ~(allowed | later if claims.causal else allowed)
    if (beyond > 0).any():
        trial, pair, size = _worst(beyond)
        i, j = pair
        yield Fault(
            "window", f"output {i} of the model changes with token {j}, from which no path of the "
            "declared layers leads to it", (), entrance(subject, x, pair, 1 + trial), pair, size,
            changed_token(subject, x, pair, 1 + trial),
        )  # fmt: skip


def _worst(effects: torch.Tensor) -> tuple[int, tuple[int, int], float]:
    """The trial and the pair with the largest effect, and how large it is."""
    trial = int(effects.amax((1, 2)).argmax())
    return trial, *worst(effects[trial])


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
