"""Models of transformers 5.22 that have faults as they are shipped. Not in the healthy table."""

from __future__ import annotations

from models.faults.families import GROUPED, SIZES, Make, alone

FAULTY_AS_SHIPPED: dict[str, tuple[Make, str]] = {
    # without position_ids its attention takes every new token for the first: positions are counted
    # from 0 in each call, whatever the cache holds
    "bamba": (
        alone(
            "BambaForCausalLM",
            GROUPED,
            num_hidden_layers=3,
            attn_layer_indices=[1],
            mamba_n_heads=8,
            mamba_d_head=8,
            mamba_n_groups=2,
            mamba_d_state=8,
            mamba_chunk_size=8,
        ),
        "cache",
    ),
    # the time step is at least time_step_min where many tokens are read, and not where one is
    "zamba2": (
        alone(
            "Zamba2ForCausalLM",
            SIZES,
            num_hidden_layers=4,
            mamba_d_state=8,
            mamba_ngroups=2,
            n_mamba_heads=4,
            mamba_headdim=16,
            chunk_size=8,
            num_mem_blocks=1,
            hybrid_layer_ids=[1, 3],
            layers_block_type=["mamba", "hybrid", "mamba", "hybrid"],
            attention_head_dim=16,
        ),
        "cache",
    ),
    # its convolution reads padding: attention_mask never reaches it
    "recurrent_gemma": (
        alone(
            "RecurrentGemmaForCausalLM",
            GROUPED,
            num_hidden_layers=3,
            attention_window_size=5,
            lru_width=32,
        ),
        "padding",
    ),
    # it takes attention_mask and does nothing with it
    "rwkv": (
        alone("RwkvForCausalLM", SIZES, attention_hidden_size=32, context_length=64),
        "padding",
    ),
    # landmarks are means over padding too
    "nystromformer": (
        alone("NystromformerForMaskedLM", SIZES, num_landmarks=8, segment_means_seq_len=8),
        "padding",
    ),
    # its convolutions read padding
    "convbert": (
        alone("ConvBertForMaskedLM", SIZES, embedding_size=32),
        "padding",
    ),
    # what it makes of a token reads the tokens beside it, padding too
    "mobilebert": (
        alone(
            "MobileBertForMaskedLM",
            SIZES,
            embedding_size=16,
            intra_bottleneck_size=16,
            true_hidden_size=16,
        ),
        "padding",
    ),
}
"""A model, and the rule that finds its fault."""
