"""The families of Hugging Face models whose configs can be read as designs, one function each.

Each takes a config and the number of tokens. What they say of windows, causality and positions is
what the models of transformers do with no mask but their own, in evaluation mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyseq.base import layers_text
from anyseq.errors import InvalidArgument
from anyseq.hf.outline import (
    LAYER_NORM,
    NO_BOS,
    POST_NORM,
    RMS_NORM,
    Outline,
    rotary,
    seen_around,
    seen_before,
    sliding,
)
from anyseq.patterns import Causal, Coarse, Full, Global, Pattern, Window
from anyseq.positions import Absolute, ALiBi, NoPosition, Position, Rotary, T5Bias

_LEARNED = "positions: a learned vector per position, added to the input"


def _encoder(config: Any, tokens: int) -> Outline:
    """BERT and its kin: absolute positions; causal if the config makes a decoder of it."""
    layers = (_plain(config),) * config.num_hidden_layers
    return Outline(Absolute(), layers, (_LEARNED,), (POST_NORM,))


def _gpt2(config: Any, tokens: int) -> Outline:
    layers = (seen_before(None),) * config.num_hidden_layers
    return Outline(Absolute(), layers, (_LEARNED, NO_BOS), (LAYER_NORM,))


def _llama(config: Any, tokens: int) -> Outline:
    """Rotary decoders without windows."""
    return _decoder(config, (seen_before(None),) * config.num_hidden_layers)


def _mistral(config: Any, tokens: int) -> Outline:
    """All layers have the window."""
    return _decoder(config, (seen_before(config.sliding_window),) * config.num_hidden_layers)


def _alternating(config: Any, tokens: int) -> Outline:
    """`layer_types` says which layers have the window."""
    return _decoder(config, sliding(config, causal=True))


def _gemma2(config: Any, tokens: int) -> Outline:
    caps = [
        f"{name}={getattr(config, name)}: scores go through tanh"
        for name in ("attn_logit_softcapping", "final_logit_softcapping")
        if getattr(config, name) is not None
    ]
    return _decoder(config, sliding(config, causal=True), *caps)


def _gemma3(config: Any, tokens: int) -> Outline:
    return _decoder(config, sliding(config, causal=not config.use_bidirectional_attention))


def _gpt_oss(config: Any, tokens: int) -> Outline:
    layers = sliding(config, causal=True)
    position, fact = rotary(config)
    facts = (fact, "sinks: a learned score per head takes weight and gives no value", NO_BOS)
    return Outline(position, layers, facts, (RMS_NORM, _experts(config)), sinks=True)


def _mixtral(config: Any, tokens: int) -> Outline:
    layers = (seen_before(config.sliding_window),) * config.num_hidden_layers
    return _decoder(config, layers, _experts(config))


def _t5(config: Any, tokens: int) -> Outline:
    """The encoder."""
    buckets, distance = (
        config.relative_attention_num_buckets,
        config.relative_attention_max_distance,
    )
    facts = (
        "the decoder is not read, nor what it sees of the encoder",
        f"positions: a learned bias per head and bucket of offsets, {buckets} buckets up to "
        f"distance {distance}",
    )
    return Outline(T5Bias(buckets, distance), (Full(),) * config.num_layers, facts, (RMS_NORM,))


def _deberta(config: Any, tokens: int) -> Outline:
    facts, unsure = [], [POST_NORM]
    position: Position | None = NoPosition()
    terms = [term for term in ("c2p", "p2c") if term in (config.pos_att_type or ())]
    if config.relative_attention and terms:
        position = None
        facts.append(f"positions: relative vectors that meet the content ({', '.join(terms)})")
    if config.position_biased_input:
        position = Absolute()
        facts.append(_LEARNED)
    if position is None:
        unsure.insert(0, "scores that mix offset and content are none of the Positions of a Design")
    if position == NoPosition():
        facts.append("positions: none, neither at the input nor in scores")
    if getattr(config, "conv_kernel_size", 0) > 0:
        position = None
        unsure.insert(0, "a convolution beside the first layer is not attention")
    layers = (Full(),) * config.num_hidden_layers
    return Outline(position, layers, tuple(facts), tuple(unsure))


def _roformer(config: Any, tokens: int) -> Outline:
    layers = (_plain(config),) * config.num_hidden_layers
    if config.rotary_value:
        why = "values are turned too (rotary_value): none of the Positions of a Design does that"
        return Outline(None, layers, ("positions: rotary, values too",), (why, POST_NORM))
    return Outline(Rotary(), layers, ("positions: rotary, base 10,000",), (POST_NORM,))


def _alibi(config: Any, tokens: int) -> Outline:
    """Bloom and MPT add slope·j, which in a causal row differs from -slope·|i-j| by a constant."""
    layers = (seen_before(None),) * config.num_hidden_layers
    facts = ("positions: ALiBi, a fixed slope per head", NO_BOS)
    return Outline(ALiBi(), layers, facts, (LAYER_NORM,))


def _longformer(config: Any, tokens: int) -> Outline:
    given, count = config.attention_window, config.num_hidden_layers
    windows = [given] * count if isinstance(given, int) else list(given)
    if len(windows) != count or any(window < 1 or window % 2 for window in windows):
        raise InvalidArgument(
            f"attention_window={given}: expected an even number above 0, or one for each of the "
            f"{layers_text(count)}; transformers builds no other"
        )
    layers = tuple(seen_around(window // 2 + 1) for window in windows)
    facts = (_LEARNED, "global attention: none unless the caller names tokens for it")
    return Outline(Absolute(), layers, facts, (POST_NORM,))


def _big_bird(config: Any, tokens: int) -> Outline:
    """Block-sparse: own and neighbouring blocks, the first and the last; in evaluation mode the
    random blocks are all the first one. Short sequences silently get full attention."""
    block, random = config.block_size, config.num_random_blocks
    shortest = (5 + 2 * random) * block
    facts = [_LEARNED]
    pattern = _plain(config)
    if config.attention_type == "block_sparse":
        if tokens > shortest:
            pattern = Coarse(block, Window(1) | Global((0, -1)))
            facts.append("random blocks: in evaluation mode all of them are the first block")
        else:
            facts.append(f"full attention up to {shortest} tokens, though the config is sparse")
    layers = (pattern,) * config.num_hidden_layers
    return Outline(Absolute(), layers, tuple(facts), (POST_NORM,))


def _mamba(config: Any, tokens: int) -> Outline:
    why = "Mamba has no attention: a recurrence, which a Design does not describe"
    return Outline(None, (), ("no attention, no positions; causal",), (why,))


def _plain(config: Any) -> Pattern:
    return Causal() if config.is_decoder else Full()


def _decoder(config: Any, layers: tuple[Pattern, ...], *unsure: str) -> Outline:
    position, fact = rotary(config)
    return Outline(position, layers, (fact, NO_BOS), (RMS_NORM, *unsure))


def _experts(config: Any) -> str:
    return f"a router sends each token to some of {config.num_local_experts} experts"


FAMILIES: dict[str, Callable[[Any, int], Outline]] = {
    "bert": _encoder,
    "electra": _encoder,
    "roberta": _encoder,
    "xlm-roberta": _encoder,
    "gpt2": _gpt2,
    "llama": _llama,
    "gemma": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _alternating,
    "qwen3": _alternating,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "gpt_oss": _gpt_oss,
    "t5": _t5,
    "deberta": _deberta,
    "deberta-v2": _deberta,
    "roformer": _roformer,
    "bloom": _alibi,
    "mpt": _alibi,
    "longformer": _longformer,
    "big_bird": _big_bird,
    "mamba": _mamba,
}
"""By `model_type`."""

_AFTER_PADDING = {"roberta", "xlm-roberta", "longformer"}
_TABLES = _AFTER_PADDING | {"bert", "electra", "gpt2", "deberta", "deberta-v2", "roformer"}


def longest(config: Any) -> int | None:
    """How many tokens the family's table of positions has room for; None if there is none."""
    if config.model_type == "mpt":
        return int(config.max_seq_len)
    if config.model_type not in _TABLES | {"big_bird"}:
        return None
    # RoBERTa's positions start after the padding token's.
    taken = config.pad_token_id + 1 if config.model_type in _AFTER_PADDING else 0
    return int(config.max_position_embeddings) - taken
