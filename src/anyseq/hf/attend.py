"""The attention function that Hugging Face models call, and what each attention module is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from anyseq.errors import InvalidArgument
from anyseq.hf.layers import Patterns
from anyseq.hf.view import View, views
from anyseq.ops import attention
from anyseq.patterns import Pattern
from anyseq.positions import Toeplitz

NAME = "anyseq"
"""The name of anyseq's attention in transformers."""
ATTACHMENT = "anyseq_attachment"
"""The attribute of a model that holds its `Attachment`."""
GAIN = "anyseq_gain"
"""The name of the module of a model that holds its gain."""
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


@dataclass(eq=False)
class Attachment:
    """What `use` put on one model.

    patterns: of each self-attention layer, once the probe has found out how many there are.
    original: the attention implementations before. record: calls, collected while the probe runs.
    ran: the parts of the model, PreTrainedModels themselves, that ran then.
    """

    model: PreTrainedModel
    backend: str
    original: list[tuple[PreTrainedConfig, Any]]
    patterns: Patterns = ()
    record: list[Seen] | None = None
    ran: set[torch.nn.Module] = field(default_factory=set)
    hooks: list[Any] = field(default_factory=list)

    @property
    def gain(self) -> torch.nn.Module | None:
        """Looked up at every call: adapters put another module in its place."""
        return self.model._modules.get(GAIN)


@dataclass(eq=False)
class Site:
    """What one attention module is given; cross-attention has neither pattern nor gain.

    cross, layer: None until the probe has found out; cross-attention has no layer number.
    """

    attachment: Attachment
    cross: bool | None = None
    layer: int | None = None

    @property
    def pattern(self) -> Pattern | None:
        return None if self.layer is None else self.attachment.patterns[self.layer]

    @property
    def gain(self) -> torch.nn.Module | None:
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
            "anyseq.hf.use was not called on it; load saved models with "
            "anyseq.hf.from_pretrained, or "
            "call use on this very model (two that share one config object share its "
            "attn_implementation)"
        )
    causal = getattr(module, "is_causal", False) if is_causal is None else is_causal
    if attention_mask is None and site.cross is False and causal and query.shape[2] > 1:
        raise InvalidArgument(
            f"attention_mask: none arrived at {type(module).__name__}; padding and causality "
            "would be lost. The model must make its mask with transformers.masking_utils"
        )
    _refuse_others(others)
    seen = views(attention_mask, site.pattern, query.shape[2], key.shape[2])
    for one in seen:
        if None not in (is_causal, one.causal) and is_causal != one.causal:
            raise InvalidArgument(
                f"is_causal={is_causal}: the model's mask says {one.causal}; set config.is_causal"
            )
    table = None if site.gain is None else site.gain(query)
    common: dict[str, Any] = {
        "gain": None if table is None else Toeplitz(table),
        "softcap": softcap,
        "scale": scaling,
        "enable_gqa": True,
        "dropout_p": dropout,
        "backend": site.attachment.backend,
    }
    outs = [_seen(one, query, key, value, position_bias, s_aux, common) for one in seen]
    if len(seen) == 1 and seen[0].rows is None:
        out = outs[0].transpose(1, 2).contiguous()
    else:
        out = query.new_zeros(*query.shape[:3], value.shape[3]).transpose(1, 2).contiguous()
        for one, part in zip(seen, outs, strict=True):
            assert one.rows is not None
            out[one.rows, one.queries] = part.transpose(1, 2)
    if site.attachment.record is not None:
        site.attachment.record.append(Seen(module, site, key.shape[2], out))
    return out, None


def _seen(
    seen: View,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    position_bias: torch.Tensor | None,
    s_aux: torch.Tensor | None,
    common: dict[str, Any],
) -> torch.Tensor:
    """out (b, H, n, E) of the batch rows and queries of a view."""
    terms = [seen.of(term).to(query) for term in (seen.bias, position_bias) if term is not None]
    bias = reduce(add, terms) if terms else None
    if common["softcap"] is not None and bias is not None:
        raise InvalidArgument(
            f"softcap={common['softcap']} together with a bias or a float attention_mask: which "
            "is applied first is not known; give a bool attention_mask"
        )
    on = query.device
    arguments = common | {
        "pattern": seen.pattern,
        "key_mask": None if seen.key_mask is None else seen.key_mask.to(on),
        "document_ids": None if seen.documents is None else seen.documents.to(on),
        "bias": bias,
        "is_causal": bool(seen.causal),
        "q_offset": seen.q_offset,
    }
    q, k, v = seen.of(query, columns=False), seen.of_keys(key), seen.of_keys(value)
    if s_aux is None:
        out: torch.Tensor = attention(q, k, v, **arguments)
        return out
    # exp(sink) joins the denominator: every weight is multiplied by Z / (Z + exp(sink)).
    out, lse = attention(q, k, v, **arguments, return_lse=True)
    return out * torch.sigmoid(lse - s_aux[:, None].to(lse))[..., None].to(out)


def _refuse_others(others: dict[str, object]) -> None:
    for name, value in others.items():
        if name not in _HARMLESS and value is not None and value is not False:
            raise InvalidArgument(
                f"{name}: the model hands this to attention, and anyseq.hf does not support "
                "it there; call anyseq.hf.restore(model) to use the model with it"
            )
