"""The sizes of small copies: a config with the same layers, and little else.

Numbers that give the width of a model become small; those that describe its structure stay: the
number of layers, their kinds, which of them share what. Windows and chunks become so small that a
short sequence goes beyond them, each kind to its own width, by which it is recognised.
"""

from __future__ import annotations

from typing import Any

from anyseq.base import at_least_one
from anyseq.errors import InvalidArgument

READ_TOKENS = 30
"""The length of what an encoder reads, where a decoder writes TOKENS; a multiple of small windows,
so that nothing is padded."""

_HEADS, _HEAD_SIZE, _VOCAB, _POSITIONS = 4, 16, 64, 96
_WIDTH = _HEADS * _HEAD_SIZE


def _all(names: str, value: int) -> dict[str, int]:
    return dict.fromkeys(names.split(), value)


_SIZES = {
    **_all(
        "hidden_size d_model n_embd dim emb_dim embedding_size embedding_dim word_embed_proj_dim "
        "input_embedding_size output_embedding_size pooler_hidden_size lru_width true_hidden_size "
        "entity_emb_size intra_bottleneck_size prediction_head_size pronunciation_embed_dim "
        "shape_embed_dim backbone_hidden_size ple_embed_dim embed_dim",
        _WIDTH,
    ),
    **_all(
        "intermediate_size d_ff ffn_dim encoder_ffn_dim decoder_ffn_dim moe_intermediate_size "
        "shared_expert_intermediate_size shared_intermediate_size d_inner dim_ff dff hidden_dim "
        "ffn_hidden_size expert_ffn_hidden_size feed_forward_size intermediate_size_mlp n_inner "
        "moe_shared_expert_intermediate_size dense_intermediate_size mamba_d_ssm",
        2 * _WIDTH,
    ),
    **_all(
        "num_attention_heads n_head n_heads num_heads encoder_attention_heads attention_heads "
        "decoder_attention_heads num_encoder_attention_heads num_decoder_attention_heads "
        "swa_num_attention_heads linear_num_key_heads linear_num_value_heads linear_num_heads",
        _HEADS,
    ),
    **_all(
        "head_dim d_kv d_head dim_head attention_head_size swa_head_dim kv_channels v_head_dim "
        "global_head_dim linear_key_head_dim linear_value_head_dim linear_head_dim "
        "index_head_dim indexer_head_dim qk_head_dim kv_lora_rank q_lora_rank o_lora_rank "
        "gated_norm_rank hidden_size_per_layer_input embedding_rank adapter_rank laurel_rank "
        "hc_lowrank router_hidden_size mamba_d_head mamba_head_dim mamba_headdim",
        _HEAD_SIZE,
    ),
    **_all("qk_rope_head_dim qk_nope_head_dim rotary_dim mamba_n_heads mamba_num_heads", 8),
    **_all("n_mamba_heads mamba_d_state state_size ssm_state_size mamba_dt_rank", 8),
    **_all("time_step_rank patch_size", 8),
    "image_size": 64,
    **_all(
        "vocab_size vocab_size_per_layer_input entity_vocab_size decoder_vocab_size "
        "src_vocab_size tgt_vocab_size pronunciation_vocab_size shape_vocab_size "
        "encoder_hash_byte_group_vocab",
        _VOCAB,
    ),
}
"""Names of widths, and the value that each gets."""

_COUNTS = {
    **_all("num_experts n_routed_experts num_local_experts moe_num_experts", 4),
    **_all(
        "n_group topk_group num_expert_group n_shared_experts zero_expert_num n_groups "
        "mamba_n_groups mamba_ngroups",
        1,
    ),
    **_all("index_n_heads kv_n_heads num_experts_per_tok moe_topk moe_k indexer_n_heads", 2),
    "num_experts_per_token": 2,
}
"""Names of sizes with an upper limit."""

WIDTHS = {
    "sliding_window": 5,
    "sliding_window_size": 5,
    "attention_window_size": 5,
    "window_size": 5,
    "local_attention": 14,
    "attention_window": 6,
    "attention_chunk_size": 7,
    "local_radius": 3,
    "block_size": 2,
}
"""How far tokens attend in some layers: this many, or one more, as some must be even."""

_WINDOWED = {"window_size": 2, "patch_size": 4}
"""For windows over pictures that are halved three times."""

_CHUNKS = _all("chunk_size mamba_chunk_size global_block_size", 8)

_LENGTHS = frozenset(
    (
        "max_position_embeddings",
        "n_positions",
        "max_seq_len",
        "n_ctx",
        "max_target_positions",
        "context_length",
        "max_encoder_position_embeddings",
        "max_decoder_position_embeddings",
    )
)

_SHARED = {
    "num_key_value_heads": "num_attention_heads",
    "num_kv_heads": "num_attention_heads",
    "num_query_groups": "num_attention_heads",
    "num_global_key_value_heads": "num_attention_heads",
    "swa_num_key_value_heads": "swa_num_attention_heads",
}
"""Heads of keys and values, and those of queries that share them."""


def scaled(
    values: dict[str, Any], widths: dict[str, tuple[int, int]], wider: int = 0
) -> dict[str, Any]:
    """The values of a config, small; the widths of windows, by so much wider than usual, are
    written down in `widths`."""
    small = dict(values)
    for name, value in values.items():
        if name == "rope_parameters" and isinstance(value, dict):
            small[name] = _rope(value)
        elif isinstance(value, dict):
            if name.endswith("config") or name in ("encoder", "decoder", "text_encoder"):
                small[name] = scaled(value, widths, wider)
        elif value is not None and not isinstance(value, bool):
            small[name] = _one_scaled(name, value, values, widths, wider)
    return small


def _one_scaled(
    name: str,
    value: Any,
    values: dict[str, Any],
    widths: dict[str, tuple[int, int]],
    wider: int,
) -> Any:
    whole = isinstance(value, int)
    if "image_size" in values and "window_size" in values and name in _WINDOWED:
        return _WINDOWED[name]
    kinds = values.get("layer_types") or ["sliding_attention"]
    if name in WIDTHS and value == 0 and "sliding_attention" not in kinds:
        return value  # of layers that there are none of
    if name in WIDTHS and whole:
        at_least_one(name, value)
        widths[name] = (WIDTHS[name] + (WIDTHS[name] + value) % 2 + wider, value)
        return widths[name][0]
    if name in WIDTHS and isinstance(value, list):
        if len(set(value)) != 1:
            raise InvalidArgument(f"{name}={value}: expected one width for all layers")
        return [_one_scaled(name, value[0], values, widths, wider)] * len(value)
    if name == "head_dim" and value == values.get("qk_rope_head_dim"):
        return _SIZES["qk_rope_head_dim"]  # the part of a head that is turned
    if name == "num_heads" and "expand" in values:  # of a state space as wide as all its heads
        return values["expand"] * _WIDTH // _HEAD_SIZE
    if name == "attention_hidden_size":
        return _WIDTH * value // values["hidden_size"]
    if name == "attention_head_dim":
        return _WIDTH * values["attention_hidden_size"] // values["hidden_size"] // _HEADS
    if name in _SIZES and whole:
        return _SIZES[name] if value > 0 else value  # 0 says that there is none
    if name in _SIZES and isinstance(value, list):
        return [_SIZES[name]] * len(value)
    if name in _COUNTS and whole:
        return min(value, _COUNTS[name])
    if name in _SHARED and whole:
        heads = values.get(_SHARED[name])
        return max(1, _HEADS * value // heads) if isinstance(heads, int) else 1
    if name in _CHUNKS and whole:
        return min(value, _CHUNKS[name])
    if name in _LENGTHS and whole and value > 0:
        return _POSITIONS
    if name == "max_source_positions" and whole:
        return READ_TOKENS
    if name == "num_attention_heads_per_layer":
        return [_HEADS] * len(value)
    if name.endswith(("token_id", "token_index")):  # ids beyond the small vocabulary
        return 5 if isinstance(value, list) or value >= 8 else value
    return value


def _rope(given: dict[str, Any]) -> dict[str, Any]:
    """Rotary positions without their scaling, which changes angles only, and has a number for
    each of them."""
    if any(isinstance(one, dict) for one in given.values()):
        return {kind: _rope(one) if isinstance(one, dict) else one for kind, one in given.items()}
    plain = {name: one for name, one in given.items() if not isinstance(one, list)}
    plain["rope_type"] = "default"
    planes = round(_HEAD_SIZE * given.get("partial_rotary_factor", 1.0)) // 2
    plain["mrope_section"] = [planes - 2, 1, 1]  # of time, height and width, where they differ
    return plain
