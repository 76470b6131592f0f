"""A small copy of a Hugging Face model, made from its config alone, with random weights, on a CPU.

Numbers that say how wide a model is become small; those that say how it is built stay: the number
of layers, their kinds, which of them share what. Windows and chunks become so small that a short
sequence goes beyond them, each kind of them to a width of its own, by which it is known again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto

from anyseq.base import generator
from anyseq.errors import UnsupportedModel
from anyseq.models.one_line import in_one_line

TOKENS = 29
"""The length that small models are run at: prime, so that no other size is taken for it."""

READ_TOKENS = 31
"""The length of what an encoder reads, where a decoder writes TOKENS."""

ROWS = 32
"""Equal sequences in a batch, more than there are tokens, so that one run says of every output
what it depends on; and another number, so that it is seen which is which."""

_HEADS, _HEAD_SIZE, _VOCAB, _POSITIONS = 4, 16, 64, 96
_WIDTH = _HEADS * _HEAD_SIZE
_MOST_WEIGHTS = 100_000_000


def _all(names: str, value: int) -> dict[str, int]:
    return dict.fromkeys(names.split(), value)


_SIZES = {
    **_all(
        "hidden_size d_model n_embd dim emb_dim embedding_size embedding_dim word_embed_proj_dim "
        "input_embedding_size output_embedding_size pooler_hidden_size lru_width mamba_d_ssm "
        "entity_emb_size intra_bottleneck_size prediction_head_size pronunciation_embed_dim "
        "shape_embed_dim backbone_hidden_size ple_embed_dim embed_dim",
        _WIDTH,
    ),
    **_all(
        "intermediate_size d_ff ffn_dim encoder_ffn_dim decoder_ffn_dim moe_intermediate_size "
        "shared_expert_intermediate_size shared_intermediate_size d_inner dim_ff dff hidden_dim "
        "ffn_hidden_size expert_ffn_hidden_size feed_forward_size intermediate_size_mlp n_inner "
        "moe_shared_expert_intermediate_size dense_intermediate_size",
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
        "index_head_dim qk_head_dim kv_lora_rank q_lora_rank o_lora_rank gated_norm_rank "
        "hidden_size_per_layer_input embedding_rank adapter_rank laurel_rank hc_lowrank "
        "router_hidden_size mamba_d_head mamba_head_dim mamba_headdim",
        _HEAD_SIZE,
    ),
    **_all("qk_rope_head_dim qk_nope_head_dim rotary_dim mamba_n_heads mamba_num_heads", 8),
    **_all("n_mamba_heads mamba_d_state state_size ssm_state_size mamba_dt_rank", 8),
    **_all("time_step_rank patch_size", 8),
    **_all(
        "vocab_size vocab_size_per_layer_input entity_vocab_size decoder_vocab_size "
        "src_vocab_size tgt_vocab_size pronunciation_vocab_size shape_vocab_size "
        "encoder_hash_byte_group_vocab",
        _VOCAB,
    ),
    **_all("num_experts n_routed_experts num_local_experts moe_num_experts", 4),
    **_all(
        "num_experts_per_tok moe_topk moe_k num_experts_per_token n_group topk_group "
        "num_expert_group n_shared_experts zero_expert_num n_groups mamba_n_groups mamba_ngroups",
        1,
    ),
    "index_n_heads": 2,
}
"""At most so much."""

WIDTHS = {
    "sliding_window": 5,
    "sliding_window_size": 5,
    "attention_window_size": 5,
    "window_size": 5,
    "local_attention": 6,
    "attention_window": 6,
    "attention_chunk_size": 7,
    "local_radius": 3,
    "block_size": 2,
}
"""How far tokens see in some layers, at most so much."""

_CHUNKS = _all("chunk_size mamba_chunk_size global_block_size", 8)

_LENGTHS = (
    "max_position_embeddings n_positions max_seq_len n_ctx max_target_positions context_length "
    "max_encoder_position_embeddings max_decoder_position_embeddings"
).split()

_SHARED = {
    "num_key_value_heads": "num_attention_heads",
    "num_kv_heads": "num_attention_heads",
    "num_query_groups": "num_attention_heads",
    "num_global_key_value_heads": "num_attention_heads",
    "swa_num_key_value_heads": "swa_num_attention_heads",
}
"""Heads of keys and values, and those of queries that share them."""


@dataclass(frozen=True, eq=False)
class Small:
    """A small copy, in evaluation mode.

    widths: the windows and chunks that were made smaller: name -> (its width here, its real one).
    """

    model: PreTrainedModel
    widths: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def inputs(self) -> dict[str, Any]:
        """Sequences of different tokens, the same one in every row."""
        return self._inputs(
            torch.randint(10, 60, (READ_TOKENS,), generator=generator(1), dtype=torch.int64)
        )

    @property
    def equal_inputs(self) -> dict[str, Any]:
        """Sequences of equal tokens."""
        return self._inputs(torch.full((READ_TOKENS,), 17))

    def _inputs(self, ids: torch.Tensor) -> dict[str, Any]:
        config, rows = self.model.config, ids.expand(ROWS, -1)
        if self.model.main_input_name == "pixel_values":
            return {"pixel_values": self._noise(config.num_channels, *_image(config))}
        written = {"decoder_input_ids": rows[:, :TOKENS]}
        if self.model.main_input_name == "input_features":
            frames = 2 * config.max_source_positions
            return {"input_features": self._noise(config.num_mel_bins, frames), **written}
        if config.is_encoder_decoder:
            return {"input_ids": rows, **written}
        return {"input_ids": rows[:, :TOKENS]}

    def _noise(self, *shape: int) -> torch.Tensor:
        noise = torch.randn(shape, generator=generator(1), dtype=self.model.dtype)
        return noise.expand(ROWS, *shape)

    def run(self, inputs: dict[str, Any]) -> Any:
        """One forward pass; what is random in it is the same each time."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            try:
                return self.model(**inputs, use_cache=False)
            except TypeError:
                return self.model(**inputs)


def small(config: PreTrainedConfig) -> Small:
    """The small copy of the model that a config describes."""
    name = type(config).__name__
    widths: dict[str, tuple[int, int]] = {}
    try:
        own = type(config).from_dict(_scaled(config.to_dict(), widths))
        own._attn_implementation = "eager"
        _check_size(config, own)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = model_class(config)(own)
    except UnsupportedModel:
        raise
    except Exception as problem:  # transformers' models fail in as many ways as there are models
        raise UnsupportedModel(
            f"{name}: no small copy can be built from it: {type(problem).__name__}: "
            f"{in_one_line(problem)}"
        ) from problem
    if model._can_set_experts_implementation():
        model.set_experts_implementation("eager")  # the quicker ones know no float64
    return Small(_with_random_weights(model.double().eval()), widths)


def _check_size(config: PreTrainedConfig, own: PreTrainedConfig) -> None:
    """The copy is small, before it is built."""
    try:
        with torch.device("meta"):
            size = sum(one.numel() for one in model_class(config)(own).parameters())
    except (RuntimeError, NotImplementedError):
        return  # it looks at its weights as it is built, and cannot be without
    if size > _MOST_WEIGHTS:
        raise UnsupportedModel(
            f"{type(config).__name__}: even a small copy of it has {size:,} weights; expected up "
            f"to {_MOST_WEIGHTS:,}"
        )


def model_class(config: PreTrainedConfig) -> type[PreTrainedModel]:
    """transformers' model of that config, without a head if there is such a one."""
    for mapping in (
        modeling_auto.MODEL_MAPPING,
        modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING,
        modeling_auto.MODEL_FOR_MASKED_LM_MAPPING,
        modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    ):
        if type(config) in mapping:
            found = mapping[type(config)]
            return found[0] if isinstance(found, list | tuple) else found
    raise UnsupportedModel(f"{type(config).__name__}: transformers has no model of it to look at")


def _with_random_weights(model: PreTrainedModel) -> PreTrainedModel:
    """All that is learned normal, of a size that keeps activations near 1: what starts at 0 or 1,
    such as gates, biases and scales of norms, would look like structure."""
    rng = generator(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point() and parameter.requires_grad:
                fan = min(parameter.shape[-2:]) if parameter.ndim > 1 else 1
                noise = torch.randn(parameter.shape, generator=rng, dtype=torch.float64)
                parameter.copy_(noise / max(fan, 1) ** 0.5)
    return model


def _scaled(values: dict[str, Any], widths: dict[str, tuple[int, int]]) -> dict[str, Any]:
    scaled = dict(values)
    for name, value in values.items():
        if name == "rope_parameters" and isinstance(value, dict):
            scaled[name] = _rope(value)
        elif isinstance(value, dict):
            if name.endswith("config") or name in ("encoder", "decoder", "text_encoder"):
                scaled[name] = _scaled(value, widths)
        elif value is not None and not isinstance(value, bool):
            scaled[name] = _one_scaled(name, value, values, widths)
    return scaled


def _one_scaled(
    name: str, value: Any, values: dict[str, Any], widths: dict[str, tuple[int, int]]
) -> Any:
    whole = isinstance(value, int)
    if name in WIDTHS and whole and value > 0:
        widths[name] = (min(value, WIDTHS[name]), value)
        return widths[name][0]
    if name in WIDTHS and isinstance(value, list) and len(set(value)) == 1:
        return [_one_scaled(name, value[0], values, widths)] * len(value)
    if name == "head_dim" and value == values.get("qk_rope_head_dim"):
        return _SIZES["qk_rope_head_dim"]  # the part of a head that is turned
    if name == "num_heads" and "expand" in values:  # of a state space as wide as all its heads
        return values["expand"] * _WIDTH // _HEAD_SIZE
    if name == "attention_hidden_size":
        return _WIDTH * value // values["hidden_size"]
    if name == "attention_head_dim":
        return _WIDTH * values["attention_hidden_size"] // values["hidden_size"] // _HEADS
    if name in _SIZES and whole:
        return min(value, _SIZES[name])
    if name in _SIZES and isinstance(value, list):
        return [min(one, _SIZES[name]) for one in value]
    if name in _SHARED and whole:
        heads = values.get(_SHARED[name])
        return max(1, _HEADS * value // heads) if isinstance(heads, int) else 1
    if name in _CHUNKS and whole:
        return min(value, _CHUNKS[name])
    if name in _LENGTHS and whole and value > 0:
        return min(value, _POSITIONS)
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
    kept = {name: given[name] for name in ("rope_theta", "partial_rotary_factor") if name in given}
    plain = {"rope_type": "default", **kept}
    if "mrope_section" in given:
        planes = round(_HEAD_SIZE * given.get("partial_rotary_factor", 1.0)) // 2
        rest = [1] * (len(given["mrope_section"]) - 1)
        plain["mrope_section"] = [planes - len(rest), *rest]
    return plain


def _image(config: PreTrainedConfig) -> tuple[int, int]:
    size = config.image_size
    return (size, size) if isinstance(size, int) else tuple(size)
