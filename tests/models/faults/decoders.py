"""Decoders of transformers, as healthy as they are shipped."""

from __future__ import annotations

from typing import Any

import torch

from models.faults.families import BOTH, GROUPED, SIZES, Make, alone

WINDOW: dict[str, Any] = GROUPED | {"sliding_window": 5}
MIXED: dict[str, Any] = WINDOW | {
    "num_hidden_layers": 3,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}
GPT: dict[str, Any] = {
    "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 80,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
EXPERTS: dict[str, Any] = {"num_local_experts": 4, "num_experts_per_tok": 2}
MAMBA: dict[str, Any] = SIZES | {"state_size": 8, "expand": 2}

DECODERS: dict[str, Make] = {
    "llama": alone("LlamaForCausalLM", GROUPED),
    "llama, base, eager": alone("LlamaModel", GROUPED, attention="eager"),
    "llama, classifier": alone("LlamaForSequenceClassification", GROUPED, num_labels=3),
    "llama, bfloat16": alone("LlamaForCausalLM", GROUPED, dtype=torch.bfloat16),
    "mistral": alone("MistralForCausalLM", WINDOW),
    "mistral, eager": alone("MistralForCausalLM", WINDOW, attention="eager"),
    "mistral, wide window": alone("MistralForCausalLM", GROUPED, sliding_window=100),
    "ministral": alone("MinistralForCausalLM", MIXED),
    "qwen2": alone(
        "Qwen2ForCausalLM", WINDOW, use_sliding_window=True, max_window_layers=1
    ),
    "qwen3": alone("Qwen3ForCausalLM", GROUPED),
    "gemma": alone("GemmaForCausalLM", GROUPED),
    "gemma2": alone("Gemma2ForCausalLM", WINDOW, query_pre_attn_scalar=8),
    "gemma3": alone("Gemma3ForCausalLM", MIXED, query_pre_attn_scalar=8),
    "gemma3, eager": alone("Gemma3TextModel", MIXED, attention="eager"),
    "gemma4": alone(
        "Gemma4ForCausalLM", MIXED, num_hidden_layers=4, hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=80, num_kv_shared_layers=0, global_head_dim=8,
        layer_types=["sliding_attention", "full_attention"] * 2,
    ),
    "phi": alone("PhiForCausalLM"),
    "phi3": alone("Phi3ForCausalLM", WINDOW),
    "gpt2": alone("GPT2LMHeadModel", GPT),
    "gpt2, eager": alone("GPT2Model", GPT, attention="eager"),
    "gpt_neo": alone(
        "GPTNeoForCausalLM", SIZES, num_layers=2, num_heads=4, window_size=5,
        attention_types=[[["global", "local"], 1]],
    ),
    "gpt_neox": alone("GPTNeoXForCausalLM"),
    "gptj": alone("GPTJForCausalLM", GPT, rotary_dim=4),
    "gpt_bigcode": alone("GPTBigCodeForCausalLM", GPT),
    "codegen": alone("CodeGenForCausalLM", GPT, rotary_dim=4),
    "bloom": alone("BloomForCausalLM", hidden_size=32, n_layer=2, n_head=4, vocab_size=80),
    "mpt": alone("MptForCausalLM", {"d_model": 32, "n_layers": 2, "n_heads": 4, "vocab_size": 80}),
    "falcon": alone("FalconForCausalLM"),
    "falcon, alibi": alone("FalconForCausalLM", alibi=True, multi_query=False),
    "opt": alone("OPTForCausalLM", SIZES, ffn_dim=64, word_embed_proj_dim=32),
    "olmo2": alone("Olmo2ForCausalLM", GROUPED),
    "olmo3": alone("Olmo3ForCausalLM", MIXED),
    "cohere": alone("CohereForCausalLM", GROUPED),
    "cohere2": alone("Cohere2ForCausalLM", MIXED),
    "exaone4": alone("Exaone4ForCausalLM", MIXED),
    "smollm3": alone("SmolLM3ForCausalLM", GROUPED, num_hidden_layers=4),
    "llama4": alone(
        "Llama4ForCausalLM", GROUPED, num_hidden_layers=4, attention_chunk_size=8,
        num_local_experts=2, intermediate_size_mlp=64, interleave_moe_layer_step=2,
    ),
    "gpt_oss": alone("GptOssForCausalLM", MIXED, **EXPERTS),
    "starcoder2": alone("Starcoder2ForCausalLM", WINDOW),
    "stablelm": alone("StableLmForCausalLM", num_key_value_heads=4),
    "granite": alone("GraniteForCausalLM", GROUPED),
    "mixtral": alone("MixtralForCausalLM", GROUPED, **EXPERTS),
    "qwen2_moe": alone(
        "Qwen2MoeForCausalLM", GROUPED, num_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=32, shared_expert_intermediate_size=32,
    ),
    "olmoe": alone("OlmoeForCausalLM", GROUPED, num_experts=4, num_experts_per_tok=2),
    "deepseek_v3": alone(
        "DeepseekV3ForCausalLM", SIZES, moe_intermediate_size=32, n_routed_experts=4,
        num_experts_per_tok=2, n_group=2, topk_group=1, first_k_dense_replace=1, q_lora_rank=16,
        kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, head_dim=8,
        num_key_value_heads=4,
    ),
    "jamba": alone(
        "JambaForCausalLM", GROUPED, num_hidden_layers=4, attn_layer_period=2,
        attn_layer_offset=1, num_experts=2, mamba_d_state=8,
    ),
    "mamba": alone("MambaForCausalLM", MAMBA),
    "mamba2": alone("Mamba2ForCausalLM", MAMBA, head_dim=16, num_heads=4, n_groups=2, chunk_size=8),
    "lfm2": alone(
        "Lfm2ForCausalLM", GROUPED, num_hidden_layers=4, conv_L_cache=3, block_multiple_of=8,
        layer_types=["conv", "full_attention", "conv", "full_attention"],
    ),
    "qwen3_next": alone(
        "Qwen3NextForCausalLM", GROUPED, num_hidden_layers=4, linear_num_key_heads=2,
        linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=8, num_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=32,
    ),
    "falcon_h1": alone(
        "FalconH1ForCausalLM", GROUPED, mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8,
        mamba_n_groups=2, mamba_d_state=8, mamba_chunk_size=8,
    ),
    "nemotron": alone("NemotronForCausalLM", GROUPED),
    "diffllama": alone("DiffLlamaForCausalLM", GROUPED),
    "doge": alone("DogeForCausalLM", GROUPED),
    "xglm": alone(
        "XGLMForCausalLM", SIZES, d_model=32, ffn_dim=64, num_layers=2, attention_heads=4,
    ),
    "bart, decoder": alone("BartForCausalLM", BOTH),
    "pegasus, decoder": alone("PegasusForCausalLM", BOTH),
    "biogpt": alone("BioGptForCausalLM"),
    "persimmon": alone("PersimmonForCausalLM"),
    "modernbert decoder": alone(
        "ModernBertDecoderForCausalLM", SIZES, local_attention=10, num_hidden_layers=3,
        cls_token_id=1, sep_token_id=2,
    ),
    "helium": alone("HeliumForCausalLM", GROUPED),
    "glm4": alone("Glm4ForCausalLM", GROUPED),
    "arcee": alone("ArceeForCausalLM", GROUPED),
    "seed_oss": alone("SeedOssForCausalLM", GROUPED),
    "apertus": alone("ApertusForCausalLM", GROUPED),
    "bert, decoder": alone("BertLMHeadModel", SIZES, is_decoder=True),
    "ctrl": alone("CTRLLMHeadModel", GPT, dff=64),
    "openai-gpt": alone("OpenAIGPTLMHeadModel", GPT),
    "minimax": alone("MiniMaxForCausalLM", GROUPED, **EXPERTS, block_size=8),
}  # fmt: skip
