"""What to do about a fault, where that is known."""

from __future__ import annotations

from typing import Any

from anyseq.models.faults.claims import Claim
from anyseq.models.faults.subject import Subject
from anyseq.patterns import Causal, Full

UNKNOWN_MASK = (
    "register the mask function under the same name: AttentionMaskInterface.register({name!r}, "
    "sdpa_mask); without it transformers hands {name!r} no mask at all"
)


def repair_of_layer(subject: Subject, rule: str, claim: Claim) -> str | None:
    """For a layer that attends to other tokens than declared."""
    name = unmasked_implementation(subject)
    if name is not None and rule in ("future", "window"):
        return UNKNOWN_MASK.format(name=name)
    narrow = claim.pattern not in (Causal(), Full())
    if rule == "window" and narrow:
        return "hand the window or chunk of this layer on to its attention, by mask or by argument"
    if rule == "future":
        return "set is_causal, or hand the layer a causal mask"
    if rule == "lost" and not narrow:
        return "give this layer the mask, and the cache, of a layer without a window"
    if rule == "lost":
        return "a window of w tokens counts the token itself: compare the widths"
    return None


def unmasked_implementation(subject: Subject) -> str | None:
    """The name of the model's attention function, if transformers has no mask function of that
    name: then it hands it no mask."""
    if not subject.hugging_face:
        return None
    from transformers import AttentionMaskInterface

    config: Any = getattr(subject.module, "config", None)
    name = getattr(config, "_attn_implementation", None)
    known = AttentionMaskInterface._global_mapping
    return name if isinstance(name, str) and name not in known else None
