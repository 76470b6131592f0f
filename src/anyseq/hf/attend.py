"""The attention function that Hugging Face models call, and what each attention module is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

import torch
from transformers import PreTrainedConfig

from anyseq.errors import InvalidArgument
from anyseq.hf.gain import Gain
from anyseq.hf.view import View, view
from anyseq.ops import attention
from anyseq.patterns import Pattern

NAME = "anyseq"
"""What transformers knows our attention by."""
ATTACHMENT = "anyseq_attachment"
"""The attribute of a model that holds its `Attachment`."""
SITE = "anyseq_site"
"""The attribute of an attention module that holds its `Site`."""

# Either it does not concern attention, or the mask carries it already (sliding_window).
_HARMLESS = {
    "cache_position",
    "num_items_in_batch",
    "output_hidden_states",
    "output_router_logits",
    "past_key_values",
    "position_embeddings",
    "position_ids",
    "return_dict",
    "sliding_window",
    "use_cache",
}


@dataclass(frozen=True)
class Seen:
    """One call of the attention function, for the probe: M keys, out (B, N, H, E)."""

    module: torch.nn.Module
    site: Site
    keys: int
    out: torch.Tensor


@dataclass
class Attachment:
    """What `use` put on one model.

    original: the attention implementations before. record: calls, collected while the probe runs.
    """

    pattern: Pattern | None
    gain: Gain | None
    backend: str
    original: list[tuple[PreTrainedConfig, Any]]
    record: list[Seen] | None = None
    hooks: list[Any] = field(default_factory=list)


@dataclass
class Site:
    """What one attention module is told; cross-attention has neither pattern nor gain.

    cross: None until the probe has found out.
    """

    attachment: Attachment
    cross: bool | None = None

    @property
    def pattern(self) -> Pattern | None:
        return self.attachment.pattern if self.cross is False else None

    @property
    def gain(self) -> Gain | None:
        return self.attachment.gain if self.cross is False else None


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: torch.Tensor | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **others: object,
) -> tuple[torch.Tensor, None]:
    """What is registered with `AttentionInterface`: query (B, H, N, D) -> out (B, N, H, E).

    position_bias: added to the scores (T5). softcap: s -> softcap tanh(s / softcap), before the
    mask (Gemma 2). s_aux: (H,) scores of a sink, a key whose value is 0 (gpt-oss).
    """
    site: Site | None = module.__dict__.get(SITE)
    if site is None:
        raise InvalidArgument(
            f"{type(module).__name__}: its config says attn_implementation='anyseq', but "
            "anyseq.hf.use did not meet it; load saved models with anyseq.hf.load, or call use on "
            "this very model (two that share one config object share its attn_implementation)"
        )
    if attention_mask is None and site.cross is False:
        raise InvalidArgument(
            f"attention_mask: none arrived at {type(module).__name__}; padding and causality "
            "would be lost. The model must make its mask with transformers.masking_utils"
        )
    _refuse_others(others)
    seen = view(attention_mask, site.pattern, query.shape[2], key.shape[2])
    if None not in (is_causal, seen.causal) and is_causal != seen.causal:
        raise InvalidArgument(
            f"is_causal={is_causal}: the model's mask says {seen.causal}; set config.is_causal"
        )
    bias = _bias(seen, position_bias, query)
    if softcap is not None and bias is not None:
        raise InvalidArgument(
            f"softcap={softcap} together with a bias or a float attention_mask: which comes first "
            "is not known; give a bool attention_mask"
        )
    arguments: dict[str, Any] = {
        "pattern": seen.pattern,
        "key_mask": None if seen.key_mask is None else seen.key_mask.to(query.device),
        "bias": bias,
        "gain": None if site.gain is None else site.gain.toeplitz(query),
        "softcap": softcap,
        "scale": scaling,
        "is_causal": bool(seen.causal),
        "enable_gqa": True,
        "dropout_p": dropout,
        "q_offset": seen.q_offset,
        "backend": site.attachment.backend,
    }
    k, v = key[:, :, : seen.keys], value[:, :, : seen.keys]
    if s_aux is None:
        out = attention(query, k, v, **arguments)
    else:
        # exp(sink) joins the denominator: every weight is multiplied by Z / (Z + exp(sink)).
        out, lse = attention(query, k, v, **arguments, return_lse=True)
        out = out * torch.sigmoid(lse - s_aux[:, None].to(lse))[..., None].to(out)
    out = out.transpose(1, 2).contiguous()
    if site.attachment.record is not None:
        site.attachment.record.append(Seen(module, site, key.shape[2], out))
    return out, None


def _bias(
    seen: View, position_bias: torch.Tensor | None, query: torch.Tensor
) -> torch.Tensor | None:
    terms = [term for term in (seen.bias, position_bias) if term is not None]
    return reduce(add, (term[..., : seen.keys].to(query) for term in terms)) if terms else None


def _refuse_others(others: dict[str, object]) -> None:
    for name, value in others.items():
        if name not in _HARMLESS and value is not None and value is not False:
            raise InvalidArgument(
                f"{name}: the model hands this to attention, and anyseq.hf does not know what it "
                "means there; call anyseq.hf.restore(model) to use the model with it"
            )
