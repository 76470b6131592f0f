"""What the layers of 67 families of models are, written down by hand from the source code of
transformers 5.22.2: the independent check of `anyseq.read`.

Comments name the class or function where something that is not obvious is seen.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from typing import Any

from anyseq import (
    Absolute,
    ALiBi,
    Blocks,
    Causal,
    Convolution,
    Full,
    Global,
    Layer,
    NoPosition,
    Pattern,
    Position,
    Recurrence,
    Rotary,
    Sinusoidal,
    T5Bias,
    Window,
)
from anyseq.patterns import Coarse

LAYERNORM = "learned-layernorm"
RMSNORM = "learned-rmsnorm"


@dataclass(frozen=True)
class Stack:
    """The blocks of a model, or of its encoder or decoder.

    layers: every layer, in order.
    position: at the input.
    """

    layers: tuple[Layer, ...]
    position: Position = field(default_factory=NoPosition)
    block_norm: str | None = "pre"
    final_norm: str | None = RMSNORM


@dataclass(frozen=True)
class Expected:
    """A config, and what its model is.

    config: keyword arguments for CONFIG_MAPPING[type](**config).
    stack: of the encoder, if there is an encoder and a decoder; None if no Design describes it.
    decoder: self-attention of the decoder, for encoder-decoders.
    unknown: what no Design describes, where stack is None.
    """

    config: Mapping[str, Any]
    stack: Stack | None
    decoder: Stack | None = None
    unknown: str = ""


def alternating(count: int, *kinds: Layer) -> tuple[Layer, ...]:
    """So many layers: the kinds in turn, again and again; the last turn may be cut off."""
    return tuple(islice(cycle(kinds), count))


def mostly(count: int, usual: Layer, other: Layer, *, at: Container[int] = ()) -> tuple[Layer, ...]:
    """So many layers: the usual kind, and the other one at some places, counted from 0."""
    return tuple(other if place in at else usual for place in range(count))


def with_sinks(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    return tuple(replace(layer, sinks=True) for layer in layers)


def past(window: int) -> Pattern:
    """The token itself and those before it, `window` of them together:
    i - window < j <= i (sliding_window_causal_mask_function)."""
    return Causal() & Window(window - 1)


def causal(position: Position | None = None) -> Layer:
    return Layer(Causal(), position or NoPosition())


def rotary(base: float = 10_000.0, pattern: Pattern | None = None) -> Layer:
    """Causal attention with RoPE, unless another pattern is given."""
    return Layer(pattern or Causal(), Rotary(base))


def depth(count: int) -> dict[str, int]:
    return {"num_hidden_layers": count}


def both(count: int) -> dict[str, int]:
    """The layers of BART and of those after it."""
    return {"encoder_layers": count, "decoder_layers": count}


def learned(layers: tuple[Layer, ...]) -> Stack:
    """As GPT-2: learned positions, and a norm before each half and at the end."""
    return Stack(layers, Absolute(), "pre", LAYERNORM)


def post(layers: tuple[Layer, ...], position: Position | None = None) -> Stack:
    """As BERT: a norm after each addition, and none at the end; learned positions unless given."""
    return Stack(layers, position or Absolute(), "post", None)


def everything(count: int) -> tuple[Layer, ...]:
    """All see all, and attention has no positions."""
    return (Layer(Full()),) * count


def nemotron(blocks: str) -> tuple[Layer, ...]:
    """Each letter is a block with one mixer: M Mamba2, * attention, and feed-forward halves, dense
    (-) or of experts (E), which belong to the mixing step before them (NemotronHBlock)."""
    layers: list[Layer] = []
    for block in blocks:
        if block in "-E":
            layers[-1] = replace(layers[-1], feedforward=True)
        else:
            mixer = {"mixer": Recurrence()} if block == "M" else {"pattern": Causal()}
            layers.append(Layer(**mixer, feedforward=False))
    return tuple(layers)


MAMBA = Layer(mixer=Recurrence(), feedforward=False)
RECURRENT = Layer(mixer=Recurrence())  # and a feed-forward half
SHORT = Layer(mixer=Convolution(3, causal=True))

SLIDING, ALL, LINEAR, CONV = "sliding_attention", "full_attention", "linear_attention", "conv"

# The shared attention is before the Mamba block, and has a feed-forward half.
ZAMBA = (MAMBA, MAMBA, MAMBA, causal(), MAMBA, MAMBA, MAMBA, causal(), MAMBA, MAMBA)
ZAMBA_BLOCKS = [LINEAR] * 3 + ["hybrid"] + [LINEAR] * 2 + ["hybrid", LINEAR]
ZAMBA_CONFIG = depth(8) | {"layers_block_type": ZAMBA_BLOCKS}

LFM_ATTENTION = (2, 5, 8, 10, 12, 14)

DECODERS: dict[str, Expected] = {
    "llama": Expected(depth(4), Stack((rotary(),) * 4)),
    # MistralModel: one mask for all layers, with the window if there is one.
    "mistral": Expected(depth(4), Stack((rotary(pattern=past(4096)),) * 4)),
    "mistral, no window": Expected(depth(4) | {"sliding_window": None}, Stack((rotary(),) * 4)),
    "mixtral": Expected(depth(4) | {"sliding_window": 4096}, Stack((rotary(1e6, past(4096)),) * 4)),
    "gemma": Expected(depth(4), Stack((rotary(),) * 4)),
    "gemma2": Expected(
        depth(6),
        Stack(alternating(6, rotary(pattern=past(4096)), rotary()), block_norm="sandwich"),
    ),
    # Gemma3TextModel: a rotary base for each type of layer; every sixth layer sees all.
    "gemma3_text": Expected(
        depth(14),
        Stack(
            mostly(14, rotary(pattern=past(4096)), rotary(1e6), at=(5, 11)), block_norm="sandwich"
        ),
    ),
    # As EmbeddingGemma. Gemma3TextConfig makes the window 512 // 2 + 1 = 257, of which
    # _bidirectional_window_overlay takes |i - j| < 257.
    "gemma3_text, both directions": Expected(
        depth(6) | {"use_bidirectional_attention": True, "sliding_window": 512},
        Stack(
            mostly(6, rotary(pattern=Window(256)), rotary(1e6, Full()), at=(5,)),
            block_norm="sandwich",
        ),
    ),
    # Gemma4TextDecoderLayer: sandwich norms, and a gate with vectors of the token at the end of
    # each block. Gemma4TextConfig: in layers that see all only a quarter of the features turns.
    "gemma4_text": Expected(
        depth(12),
        Stack(
            mostly(12, rotary(pattern=past(512)), rotary(1e6), at=(5, 11)), block_norm="sandwich"
        ),
    ),
    # Gemma4TextConfig makes the last layer one that sees all.
    "gemma4_text, cut off": Expected(
        depth(8),
        Stack(mostly(8, rotary(pattern=past(512)), rotary(1e6), at=(5, 7)), block_norm="sandwich"),
    ),
    "qwen2": Expected(
        depth(8) | {"use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 5},
        Stack(mostly(8, rotary(pattern=past(4096)), rotary(), at=range(5))),
    ),
    # Qwen2Config: a window that is not used is dropped.
    "qwen2, window not used": Expected(
        depth(4) | {"sliding_window": 4096, "max_window_layers": 2}, Stack((rotary(),) * 4)
    ),
    "qwen3": Expected(depth(4), Stack((rotary(),) * 4)),
    # Qwen3NextDecoderLayer: a gated delta rule in three of four layers; a quarter of the features
    # turns in attention.
    "qwen3_next": Expected(
        depth(8), Stack(alternating(8, RECURRENT, RECURRENT, RECURRENT, rotary()))
    ),
    "qwen3_5_text": Expected(
        depth(8), Stack(alternating(8, RECURRENT, RECURRENT, RECURRENT, rotary()))
    ),
    # Llama4TextConfig: chunks where there is RoPE, layers 3, 7, ... without it see all. There
    # Llama4TextAttention scales queries by a number that grows from position 8191 on.
    "llama4_text": Expected(
        depth(8),
        Stack(mostly(8, rotary(5e5, Causal() & Blocks(8192)), causal(), at=(3, 7))),
    ),
    # SmolLM3Config: no_rope_layers says 1 where there is RoPE.
    "smollm3": Expected(depth(8), Stack(mostly(8, rotary(2e6), causal(), at=(3, 7)))),
    # SmolLM3Config: the window is in the layers without RoPE.
    "smollm3, window": Expected(
        depth(8) | {"use_sliding_window": True, "sliding_window": 512},
        Stack(mostly(8, rotary(2e6), Layer(past(512)), at=(3, 7))),
    ),
    # Cohere2Attention: RoPE only where there is a window. Cohere2DecoderLayer: both halves side by
    # side; Cohere2LayerNorm takes the mean away.
    "cohere2": Expected(
        depth(8),
        Stack(mostly(8, rotary(pattern=past(4096)), causal(), at=(3, 7)), final_norm=LAYERNORM),
    ),
    # Exaone4Attention: the same. Exaone4DecoderLayer: norms after attention and feed-forward only.
    "exaone4": Expected(
        depth(8),
        Stack(mostly(8, rotary(pattern=past(4096)), causal(), at=(3, 7)), block_norm="sandwich"),
    ),
    # Exaone4Attention: without any window all layers have RoPE.
    "exaone4, no window": Expected(
        depth(4) | {"sliding_window": None, "layer_types": [ALL] * 4},
        Stack((rotary(),) * 4, block_norm="sandwich"),
    ),
    # GraniteSWAAttention: a sink for each head. GraniteSWAConfig: layers 0, 4, ... see all.
    "granite_swa": Expected(
        depth(8),
        Stack(with_sinks(mostly(8, rotary(pattern=past(128)), rotary(), at=(0, 4)))),
    ),
    # GraniteSWAModel: a base of 0 is no RoPE.
    "granite_swa, bases": Expected(
        depth(8) | {"layer_rope_theta": [0, 1e4, 1e4, 1e4] * 2},
        Stack(with_sinks(mostly(8, rotary(pattern=past(128)), causal(), at=(0, 4)))),
    ),
    "olmo2": Expected(depth(4), Stack((rotary(),) * 4, block_norm="sandwich")),
    "olmo3": Expected(
        depth(8),
        Stack(mostly(8, rotary(5e5, past(4096)), rotary(5e5), at=(3, 7)), block_norm="sandwich"),
    ),
    "phi3": Expected(depth(4), Stack((rotary(),) * 4)),
    "phi3, window": Expected(
        depth(4) | {"sliding_window": 2047}, Stack((rotary(pattern=past(2047)),) * 4)
    ),
    # GPTNeoXLayer: both halves side by side; a quarter of the features turns.
    "gpt_neox": Expected(depth(4), Stack((rotary(),) * 4, final_norm=LAYERNORM)),
    # GPTJAttention: what is called embed_positions turns queries and keys.
    "gptj": Expected({"n_layer": 4}, Stack((rotary(),) * 4, final_norm=LAYERNORM)),
    "opt": Expected({}, learned((causal(),) * 12)),
    # As opt-350m. OPTDecoder: then there is no norm at the end.
    "opt, post": Expected(
        depth(4) | {"do_layer_norm_before": False, "word_embed_proj_dim": 512},
        post((causal(),) * 4),
    ),
    # FalconModel: RoPE unless alibi is set.
    "falcon": Expected(depth(4), Stack((rotary(),) * 4, final_norm=LAYERNORM)),
    "falcon, alibi": Expected(
        depth(4)
        | {"alibi": True, "parallel_attn": False, "multi_query": False}
        | {"hidden_size": 1024, "num_attention_heads": 16},
        Stack((causal(ALiBi()),) * 4, final_norm=LAYERNORM),
    ),
    # build_alibi_tensor: slope times key position, which under softmax is ALiBi.
    "bloom": Expected({"n_layer": 4}, Stack((causal(ALiBi()),) * 4, final_norm=LAYERNORM)),
    # MptModel: always ALiBi, and no learned positions, whatever learned_pos_emb says.
    "mpt": Expected({"n_layers": 4}, Stack((causal(ALiBi()),) * 4, final_norm=LAYERNORM)),
    "gpt2": Expected({}, learned((causal(),) * 12)),
    # GptOssAttention: a sink for each head, in all layers.
    "gpt_oss": Expected(
        depth(6),
        Stack(with_sinks(alternating(6, rotary(1.5e5, past(128)), rotary(1.5e5)))),
    ),
    # DeepseekV3Attention: a third of the features of queries and keys turns.
    "deepseek_v3": Expected(depth(5), Stack((rotary(),) * 5)),
    "starcoder2": Expected(
        depth(4) | {"sliding_window": 4096},
        Stack((rotary(pattern=past(4096)),) * 4, final_norm=LAYERNORM),
    ),
    "stablelm": Expected(depth(4), Stack((rotary(),) * 4, final_norm=LAYERNORM)),
    "ministral": Expected(
        depth(8)
        | {"sliding_window": 32768, "layer_types": [ALL, SLIDING, SLIDING, SLIDING] * 2}
        | {"head_dim": 128},
        Stack(mostly(8, rotary(pattern=past(32768)), rotary(), at=(0, 4))),
    ),
    # ModernBertDecoderConfig: the window is half of local_attention.
    "modernbert-decoder": Expected(
        depth(7),
        Stack(
            mostly(7, rotary(pattern=past(64)), rotary(1.6e5), at=(0, 3, 6)), final_norm=LAYERNORM
        ),
    ),
    # DiffLlamaAttention: the difference of two attentions that see the same.
    "diffllama": Expected(depth(4), Stack((rotary(),) * 4)),
    "clip_text_model": Expected({}, learned((causal(),) * 12)),
    "mamba": Expected(depth(4), Stack((MAMBA,) * 4)),
    "mamba2": Expected(depth(4), Stack((MAMBA,) * 4)),
    # JambaConfig: attention at 4, 12, ...; JambaAttention has no positions.
    "jamba": Expected(depth(16), Stack(mostly(16, RECURRENT, causal(), at=(4, 12)))),
    # Zamba2HybridLayer: norm, attention, norm and feed-forward without additions between them; the
    # result is added to what the Mamba block takes in, not to what is carried on beside it.
    "zamba2": Expected(ZAMBA_CONFIG, Stack(ZAMBA)),
    "zamba2, rotary": Expected(
        ZAMBA_CONFIG | {"use_mem_rope": True},
        Stack(mostly(10, MAMBA, rotary(), at=(3, 7))),
    ),
    # RecurrentGemmaModel: its attention has the window; half of the features turns.
    "recurrent_gemma": Expected(
        depth(8), Stack(alternating(8, RECURRENT, RECURRENT, rotary(pattern=past(2048))))
    ),
    # Lfm2ShortConv: conv_L_cache = 3 tokens. Lfm2Model: embedding_norm is at the end.
    "lfm2": Expected(
        depth(16) | {"layer_types": [ALL if i in LFM_ATTENTION else CONV for i in range(16)]},
        Stack(mostly(16, SHORT, rotary(1e6), at=LFM_ATTENTION)),
    ),
    # FalconH1DecoderLayer: attention and Mamba of the same input are added; written one after the
    # other, which can do no less.
    "falcon_h1": Expected(
        depth(4),
        Stack((Layer(mixer=Recurrence(), feedforward=False), causal(Rotary())) * 4),
        unknown="beside",
    ),
    # NemotronHAttention has no positions.
    "nemotron_h": Expected(
        {"hybrid_override_pattern": "M-M-M-M*-M-M-"}, Stack(nemotron("M-M-M-M*-M-M-"))
    ),
    "nemotron_h, experts": Expected(
        {"hybrid_override_pattern": "MEMEM*EMEMEM*E"}, Stack(nemotron("MEMEM*EMEMEM*E"))
    ),
    # KimiLinearConfig: attention at 4, 8, ...; KimiLinearAttention turns nothing.
    "kimi_linear": Expected(depth(12), Stack(mostly(12, RECURRENT, causal(), at=(4, 8)))),
}

T5_LAYERS = (Layer(Full(), T5Bias(32, 128, True)), causal(T5Bias(32, 128, False)))

ENCODERS: dict[str, Expected] = {
    # sliding_window_bidirectional_overlay: |i - j| <= local_attention // 2. ModernBertEncoderLayer:
    # the first block has its norm after the embedding.
    "modernbert": Expected(
        depth(7),
        Stack(
            mostly(7, rotary(pattern=Window(64)), rotary(1.6e5, Full()), at=(0, 3, 6)),
            final_norm=LAYERNORM,
        ),
    ),
    "eurobert": Expected({}, Stack((rotary(pattern=Full()),) * 12)),
    "bert": Expected({}, post(everything(12))),
    "bert, decoder": Expected(depth(4) | {"is_decoder": True}, post((causal(),) * 4)),
    "roberta": Expected({}, post(everything(12))),
    "xlm-roberta": Expected({}, post(everything(12))),
    "distilbert": Expected({}, post(everything(6))),
    # AlbertTransformer: one block, twelve times.
    "albert": Expected({}, post(everything(12))),
    "electra": Expected({}, post(everything(12))),
    # DisentangledSelfAttention: queries meet vectors of offsets, and these meet keys.
    "deberta-v2": Expected(
        depth(4)
        | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
        | {"position_biased_input": False},
        None,
        unknown="offset and content",
    ),
    # RoFormerEncoder: what is called embed_positions turns queries and keys.
    "roformer": Expected({}, post((rotary(pattern=Full()),) * 12, NoPosition())),
    # XLNetRelativeAttention: as in Transformer-XL.
    "xlnet": Expected({"n_layer": 4}, None, unknown="offset and content"),
    # LongformerSelfAttention: half of attention_window on either side. Tokens see all only where
    # the caller says so.
    "longformer": Expected({"max_position_embeddings": 4098}, post((Layer(Window(256)),) * 12)),
    # bigbird_block_sparse_attention, when not training: then its random blocks are all the first.
    "big_bird": Expected(depth(4), post((Layer(Coarse(64, Window(1) | Global((0, -1)))),) * 4)),
    "big_bird, full": Expected(depth(4) | {"attention_type": "original_full"}, post(everything(4))),
    "led": Expected(both(4), post((Layer(Window(256)),) * 4), decoder=post((causal(),) * 4)),
    # T5Stack: the first layer's bias is that of all. T5LayerNorm takes no mean away.
    "t5": Expected({}, Stack((T5_LAYERS[0],) * 6), decoder=Stack((T5_LAYERS[1],) * 6)),
    # UMT5LayerSelfAttention: each layer has its own bias.
    "umt5": Expected({}, Stack((T5_LAYERS[0],) * 8), decoder=Stack((T5_LAYERS[1],) * 8)),
    "bart": Expected(both(4), post(everything(4)), decoder=post((causal(),) * 4)),
    # MBartEncoderLayer, MBartDecoderLayer: unlike BART's, norms before each half.
    "mbart": Expected(both(4), learned(everything(4)), decoder=learned((causal(),) * 4)),
    "marian": Expected(
        both(4),
        post(everything(4), Sinusoidal()),
        decoder=post((causal(),) * 4, Sinusoidal()),
    ),
    # WhisperEncoder: two convolutions over the frames, then sinusoids that are not trained.
    "whisper": Expected(
        {},
        Stack(everything(4), Sinusoidal(), final_norm=LAYERNORM),
        decoder=learned((causal(),) * 4),
    ),
    "vit": Expected({}, learned(everything(12))),
    "dinov2": Expected({}, learned(everything(12))),
    # SwinStage: tokens are merged between stages, and windows are two-dimensional.
    "swin": Expected({}, None, unknown="merged"),
    # EsmAttention, EsmLayer: norms before each half; EsmEncoder: a norm at the end.
    "esm": Expected(
        {"position_embedding_type": "rotary"}
        | {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
        Stack((rotary(pattern=Full()),) * 12, final_norm=LAYERNORM),
    ),
    "esm, absolute": Expected(
        depth(4) | {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
        learned(everything(4)),
    ),
}

EXPECTED: dict[str, Expected] = DECODERS | ENCODERS
