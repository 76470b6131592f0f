"""What a Hugging Face config declares about the attention of its model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from anyseq.errors import UnsupportedModel
from anyseq.positions import Linear, Llama3, Rotary, RotaryScaling, YaRN

_TABLES = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "max_target_positions",
    "max_source_positions",
    "max_encoder_position_embeddings",
    "max_decoder_position_embeddings",
)
_BUCKETS = (
    ("relative_attention_num_buckets", "relative_attention_max_distance"),
    ("position_bias_num_buckets", "position_bias_max_distance"),
)
_BASE = 10_000.0


def said(config: Any, name: str, default: Any = None) -> Any:
    """What a config says under a name; the default if nothing, or not the same for all layers."""
    try:
        return getattr(config, name, default)
    except RuntimeError:  # heterogeneous configs raise one where layers differ
        return default


def rotary_base(config: Any, layer: int) -> float | None:
    """The base of the rotary positions of a layer, counted from 0; None if none are declared."""
    own = _rope(config, layer)
    if own:
        return _number(own.get("rope_theta"))
    for name in ("rope_theta", "rotary_emb_base", "rotary_dim", "rotary_value"):
        if said(config, name) is not None:
            value = said(config, name)
            return _number(value) if name in ("rope_theta", "rotary_emb_base") else _BASE
    return None


def scaled_rotary(config: Any, layer: int, plain: Rotary) -> Rotary:
    """The rotary positions of a layer with what a Design leaves out because no verdict depends on
    it: how many features are turned, and how angles are scaled for long sequences."""
    own = _rope(config, layer)
    share = own.get("partial_rotary_factor", said(config, "partial_rotary_factor")) or 1.0
    factor = own.get("factor", 1.0)
    original = own.get("original_max_position_embeddings") or said(
        config, "max_position_embeddings"
    )
    scaling: RotaryScaling | None = None
    match own.get("rope_type", "default"):
        case "linear":
            scaling = Linear(factor)
        case "llama3":
            scaling = Llama3(factor, original, own["low_freq_factor"], own["high_freq_factor"])
        case "yarn":
            scaling = YaRN(
                factor,
                original,
                own.get("beta_fast") or 32.0,
                own.get("beta_slow") or 1.0,
                own.get("attention_factor"),
                own.get("truncate", True),
            )
        case "default":
            pass
        case other:
            raise UnsupportedModel(
                f"rope_type={other!r}: expected 'default', 'linear', 'llama3' or 'yarn'"
            )
    return replace(plain, share=share, scaling=scaling)


def _rope(config: Any, layer: int) -> Mapping[str, Any]:
    """What the config says about the rotary positions of a layer, counted from 0."""
    given = said(config, "rope_parameters")
    if not isinstance(given, Mapping):
        return {}
    kinds = said(config, "layer_types")
    own = given.get(kinds[layer] if kinds and layer < len(kinds) else None)
    if isinstance(own, Mapping):
        return own
    inner = [one for one in given.values() if isinstance(one, Mapping)]
    return inner[0] if inner else given


def layers_without_rotary(config: Any) -> bool:
    """Whether the config says which layers have no positions."""
    names = ("no_rope_layers", "no_rope_layer_interval", "nope_layers", "layer_rope_theta")
    return any(said(config, name) for name in names)


def buckets(config: Any) -> tuple[int, int] | None:
    """The number of buckets of a bias by offset, and the distance from which on they are one."""
    for count, distance in _BUCKETS:
        if isinstance(said(config, count), int):
            return said(config, count), said(config, distance, 128)
    return None


def room(config: Any, small: Any, seen: int) -> int | None:
    """How many tokens a table of positions has room for, if that of the small copy has `seen`: some
    rows may be for padding, or before the first position."""
    for name in _TABLES:
        real, own = said(config, name), said(small, name)
        if isinstance(real, int) and isinstance(own, int) and abs(own - seen) <= 8:
            return real + seen - own
    return None


def limits(config: Any, tokens: int) -> Iterator[str]:
    """What applies beyond some length, and which a small copy does not show."""
    for name in ("index_topk", "keep_window_size"):
        kept = said(config, name)
        if isinstance(kept, int) and tokens > kept:
            yield f"of more than {kept:,} keys, {kept:,} are chosen by their content ({name})"
    blocks, size = (said(config, name) for name in ("index_topk_blocks", "index_block_size"))
    if isinstance(blocks, int) and isinstance(size, int) and tokens > blocks * size:
        yield f"blocks of keys are chosen by their content, {blocks:,} of {size:,} keys"
    capacity = said(config, "expert_capacity")
    if isinstance(capacity, int) and tokens > capacity:
        yield f"an expert takes {capacity:,} tokens and drops the others (expert_capacity)"


def additions(config: Any, tokens: int) -> Iterator[str]:
    """What a Design does not describe, and what changes neither masks nor positions."""
    if said(config, "attn_temperature_tuning") and tokens > getattr(config, "floor_scale", tokens):
        yield "queries are scaled by a number that grows with their position (floor_scale)"
    for name in ("attn_logit_softcapping", "attn_logit_softcap"):
        if said(config, name):
            yield f"scores are bounded by {said(config, name):g}·tanh ({name})"


def details(config: Any) -> Iterator[str]:
    """What is worth reporting, though no verdict depends on it."""
    experts = next(
        (
            said(config, name)
            for name in ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
            if isinstance(said(config, name), int) and said(config, name) > 1
        ),
        None,
    )
    if experts is not None:
        yield f"a router sends each token to some of {experts:,} experts"
    heads, shared = (said(config, name) for name in ("num_attention_heads", "num_key_value_heads"))
    if isinstance(heads, int) and isinstance(shared, int) and shared < heads:
        yield f"{heads} heads of queries share {shared} of keys and values"


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else _BASE
