"""Models of pictures and sounds, and parts that do not run on text."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import (
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    Gemma3TextConfig,
    SiglipVisionConfig,
    ViTConfig,
    ViTForImageClassification,
    ViTModel,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

import anyseq as aq
from anyseq.errors import UnsupportedModel
from hf.tiny import COMMON, ENCODER, GROUPED, SPECIAL

PICTURES: dict[str, Any] = {"image_size": 32, "patch_size": 8}


def vit(model_class: Any = ViTModel) -> Any:
    torch.manual_seed(0)
    return model_class(ViTConfig(**ENCODER, **PICTURES)).double().eval()


def whisper() -> Any:
    torch.manual_seed(0)
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "init_std": 0.3}
    sizes: dict[str, Any] = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, **heads}
    lengths: dict[str, Any] = {
        "max_source_positions": 24,
        "max_target_positions": 32,
        "num_mel_bins": 8,
    }
    special = SPECIAL | {"decoder_start_token_id": 1, "suppress_tokens": None}
    special |= {"begin_suppress_tokens": None}
    model = WhisperForConditionalGeneration(
        WhisperConfig(**sizes, **lengths, **special, vocab_size=50)
    )
    return model.double().eval()


@torch.no_grad()
def test_a_model_of_pictures() -> None:
    pixels = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0)).double()
    expected = vit()(pixels).last_hidden_state
    found = aq.hf.use(vit())(pixels).last_hidden_state
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    near = aq.Window(2) | aq.Global((0,))
    local = aq.hf.use(vit(ViTForImageClassification), near)
    assert local.anyseq_attachment.patterns == (near, near)
    narrow = aq.hf.use(vit(), near)(pixels).last_hidden_state
    assert (narrow - expected).abs().max() > 1e-3


@torch.no_grad()
def test_a_model_of_sounds_and_tokens() -> None:
    sounds = torch.randn(1, 8, 48, generator=torch.Generator().manual_seed(0)).double()
    ids = torch.randint(3, 50, (1, 7), generator=torch.Generator().manual_seed(0))
    expected = whisper()(input_features=sounds, decoder_input_ids=ids).logits
    model = aq.hf.use(whisper())
    found = model(input_features=sounds, decoder_input_ids=ids).logits
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    how: dict[str, Any] = {"max_new_tokens": 5, "do_sample": False}
    assert torch.equal(model.generate(sounds, **how), whisper().generate(sounds, **how))
    aq.hf.use(model, {0: aq.Window(2)})
    assert (
        model(input_features=sounds, decoder_input_ids=ids).logits - expected
    ).abs().max() > 1e-3


def test_the_pictures_of_a_language_model_are_left_alone() -> None:
    torch.manual_seed(0)
    text = Gemma3TextConfig(**GROUPED, sliding_window=4, query_pre_attn_scalar=8)
    eyes = {
        key: value
        for key, value in COMMON.items()
        if key not in ("vocab_size", "max_position_embeddings", "initializer_range")
    }
    vision = SiglipVisionConfig(**eyes, **PICTURES)
    config = Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4)
    model: Any = Gemma3ForConditionalGeneration(config)
    before = model.config.vision_config._attn_implementation
    aq.hf.use(model, aq.Window(2))
    assert model.config.text_config._attn_implementation == aq.hf.NAME
    assert model.config.vision_config._attn_implementation == before
    assert model.model.vision_tower(torch.zeros(1, 3, 32, 32)).last_hidden_state.isfinite().all()


def test_what_nobody_can_feed_is_refused_by_name() -> None:
    class Odd(ViTModel):
        main_input_name = "flattened_patches"

    with pytest.raises(UnsupportedModel, match="Odd reads flattened_patches"):
        aq.hf.use(Odd(ViTConfig(**ENCODER, **PICTURES)))
