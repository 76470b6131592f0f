"""What to do about a fault, where that is known."""

from __future__ import annotations

from typing import Any

from anyseq.models.faults.claims import Claim
from anyseq.models.faults.subject import Subject
from anyseq.patterns import Causal, Full

UNKNOWN_MASK = (
    "register the mask function under the same name: AttentionMaskInterface.register({name!r}, "
    "sdpa_mask); without it transformers passes {name!r} no mask at all"
)


WIDTHS = (
    "compare the widths: window(w) here is the distances up to w, and sliding_window=w in "
    "transformers the w tokens of which the last is the token itself"
)


def repair_of_layer(subject: Subject, rule: str, claim: Claim, far: int) -> str | None:
    """The repair for a layer that attends to other tokens than declared. far: the largest distance
    of such a pair."""
    name = unmasked_implementation(subject)
    if name is not None and rule in ("future", "window"):
        return UNKNOWN_MASK.format(name=name)
    narrow = claim.pattern not in (Causal(), Full())
    if narrow and rule in ("window", "lost") and far in _around(claim, subject.tokens):
        return WIDTHS
    if rule == "window" and narrow:
        return "pass the window or chunk of this layer to its attention, by mask or by argument"
    if rule == "future":
        return "set is_causal, or pass the layer a causal mask"
    if rule == "lost" and not narrow:
        return "give this layer the mask, and the cache, of a layer without a window"
    if rule == "lost":
        return WIDTHS
    return None


def _around(claim: Claim, tokens: int) -> tuple[int, int]:
    """The largest distance that is declared, and the next."""
    assert claim.pattern is not None
    i, j = claim.pattern.mask(tokens).nonzero(as_tuple=True)
    most = int((i - j).abs().max())
    return most, most + 1


def unmasked_implementation(subject: Subject) -> str | None:
    """The name of the model's attention function, if transformers has no mask function of that
    name: then it passes no mask."""
    if not subject.hugging_face:
        return None
    from transformers import AttentionMaskInterface

    config: Any = getattr(subject.module, "config", None)
    name = getattr(config, "_attn_implementation", None)
    known = AttentionMaskInterface._global_mapping
    return name if isinstance(name, str) and name not in known else None
