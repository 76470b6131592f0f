"""Decoding with a cache, with padding on the left, gives what the whole padded sequence gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from anyseq.models.faults.caches import NoCache, decoded, part_at_fault
from anyseq.models.faults.fault import Fault
from anyseq.models.faults.rule import Asked, NotChecked, Note
from anyseq.models.faults.snippets import call, sequence
from anyseq.models.faults.subject import Subject

_MORE = 1  # real tokens in the first call


def padded_caches(asked: Asked) -> Iterator[Fault | Note]:
    """As in generation from a batch of prompts, some of which are shorter."""
    subject = asked.subject
    if asked.claims.causal is not True or not subject.hugging_face or subject.part:
        raise NotChecked("only decoders of transformers are decoded with padding")
    if subject.name_of("real") is None:
        raise NotChecked("its forward takes no mask that says which tokens are real")
    effect = _apart(subject)
    if not (effect > 0).any() or _differs_anyway(subject):
        return
    if asked.healthy is not None and _is_the_familys_way(asked.healthy):
        return
    token, padded = int((effect > 0).int().argmax()), _padded(subject.tokens)
    yield Fault(
        "cache", f"output {token} with a cache, after {padded} padded places, differs from that of "
        "the whole padded sequence", (), _part(subject, token), (token, padded - 1),
        float(effect[token]),
        _snippet(subject, token),
        "pass each step the padding mask of all tokens so far, and the positions of the new ones",
    )  # fmt: skip


def _padded(tokens: int) -> int:
    return max(1, tokens // 4)


def _apart(subject: Subject) -> torch.Tensor:
    """(tokens,) how much outputs of real tokens differ between the two ways; 0 elsewhere."""
    x, told = subject.draw(seed=8), _told(subject)
    real = told["real"]
    try:
        out = decoded(subject, x, _new, _first(subject), **told)
    except NoCache as reason:
        raise NotChecked("it takes no known cache argument (past_key_values)") from reason
    whole, out = (one.masked_fill(~real[:, :, None], 0.0) for one in (subject.run(x, **told), out))
    if not whole.isfinite().all():
        given = subject.as_given()  # the lowest float64 is -inf to a softmax in float32
        if given is None:
            raise NotChecked("its outputs beside padding are not finite")
        return _apart(given)
    return subject.apart(whole, out, x)[0]


def _told(subject: Subject) -> dict[str, Any]:
    """Which tokens are real, and where they are."""
    real = (torch.arange(subject.tokens) >= _padded(subject.tokens))[None]
    if subject.name_of("positions") is None:
        return {"real": real}
    return {"real": real, "positions": (real.long().cumsum(1) - 1).clamp(min=0)}


def _part(subject: Subject, token: int) -> str:
    x = subject.draw(seed=8)
    return part_at_fault(subject, x, _new, _first(subject), token, **_told(subject))


def _new(subject: Subject) -> None:
    """The model makes its own cache."""


def _first(subject: Subject) -> tuple[int, ...]:
    return (_padded(subject.tokens) + _MORE,)


def _differs_anyway(subject: Subject) -> bool:
    """Whether a cache gives something else without padding too."""
    x = subject.draw(seed=8)
    out = decoded(subject, x, _new, _first(subject))
    return bool((subject.apart(subject.run(x), out, x) > 0).any())


def _is_the_familys_way(healthy: Subject) -> bool:
    try:
        return bool((_apart(healthy) > 0).any())
    except Exception:  # its own model cannot be asked
        return True


def _snippet(subject: Subject, token: int) -> str:
    padded = _padded(subject.tokens)
    told: dict[str, Any] = {"real": "real"}
    step: dict[str, Any] = {"real": "real[:, :end]"}
    lines = [
        sequence(subject, subject.draw(seed=8)),
        "real = torch.ones_like(x)",
        f"real[0, :{padded}] = 0",
    ]
    if subject.name_of("positions") is not None:
        lines.append("positions = (real.cumsum(1) - 1).clamp(min=0)")
        told["positions"], step["positions"] = "positions", "positions[:, start:end]"
    step |= {"past_key_values": "memory", "use_cache": "True"}
    whole, answer = call(subject, **told), call(subject, "x[:, start:end]", output=False, **step)
    return "\n".join([
        "import torch", "", *lines,
        "memory, start, parts = None, 0, []",
        "with torch.no_grad():",
        f"    whole = {whole}",
        f"    for end in range({padded + _MORE}, {subject.tokens + 1}):",
        f"        answer = {answer}",
        "        memory, start = answer.past_key_values, end",
        f"        parts.append(answer{subject.output})",
        f"print((whole - torch.cat(parts, 1))[0, {token}].abs().max().item())  # 0 if both agree",
        "",
    ])  # fmt: skip
