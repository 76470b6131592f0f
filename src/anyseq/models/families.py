"""Families about which more is known than running a small copy shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from anyseq.models.look import SeenStack
from anyseq.models.masks import Recognised
from anyseq.models.scores import Told
from anyseq.patterns import Coarse, Full, Global, Pattern, Window

_CHECKED = (
    "llama mistral mixtral gemma gemma2 gemma3_text gemma4_text qwen2 qwen3 qwen3_next "
    "qwen3_5_text llama4_text smollm3 cohere2 exaone4 granite_swa olmo2 olmo3 phi3 gpt_neox gptj "
    "opt falcon bloom mpt gpt2 gpt_oss deepseek_v3 starcoder2 stablelm ministral modernbert "
    "modernbert-decoder eurobert bert roberta xlm-roberta distilbert albert electra deberta-v2 "
    "roformer xlnet longformer big_bird led t5 umt5 bart mbart marian whisper vit dinov2 swin "
    "clip_text_model esm mamba mamba2 jamba zamba2 recurrent_gemma lfm2 falcon_h1 nemotron_h "
    "kimi_linear diffllama"
)
CHECKED = frozenset(_CHECKED.split())
"""Types whose reading was compared, layer by layer, with what a person wrote down from their source
(tests/models/expected.py)."""


def big_bird(config: Any, stack: SeenStack, tokens: int) -> SeenStack:
    """Block-sparse: own and neighbouring blocks, the first and the last; in evaluation mode the
    random blocks are all the first one. Short sequences silently get full attention."""
    if config.attention_type != "block_sparse" or stack.part == "decoder":
        return stack
    shortest = (5 + 2 * config.num_random_blocks) * config.block_size
    real: Pattern = _blocks(config.block_size) if tokens > shortest else Full()
    return replace(
        stack,
        layers=tuple(
            replace(
                layer,
                pattern=Recognised(layer.pattern.small, real, "block_size"),
                told=Told("none"),  # the first block counts more than once, for equal scores
            )
            if layer.pattern is not None
            else layer
            for layer in stack.layers
        ),
    )


def long_t5(config: Any, stack: SeenStack, tokens: int) -> SeenStack:
    """Local attention in blocks, whose scores are not those of all tokens against all, has T5's
    biases."""
    if config.encoder_attention_type != "local" or stack.part == "decoder":
        return stack
    layers = tuple(replace(layer, told=Told("buckets")) for layer in stack.layers)
    return replace(stack, layers=layers)


def block_sparse(widths: dict[str, tuple[int, int]]) -> list[Recognised]:
    """The pattern of BigBird's blocks, for a small copy and for the model."""
    if "block_size" not in widths:
        return []
    small, real = widths["block_size"]
    return [Recognised(_blocks(small), _blocks(real), "block_size")]


def _blocks(size: int) -> Pattern:
    return Coarse(size, Window(1) | Global((0, -1)))


BY_HAND: dict[str, Callable[[Any, SeenStack, int], SeenStack]] = {
    "big_bird": big_bird,
    "bigbird_pegasus": big_bird,
    "longt5": long_t5,
}
"""By `model_type`: what becomes of what was seen."""
