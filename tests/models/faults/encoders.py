"""Encoders, and encoders with decoders, of transformers, as healthy as they are shipped."""

from __future__ import annotations

from typing import Any

import torch

from models.faults.families import BOTH, GROUPED, SIZES, Make, alone

T5: dict[str, Any] = {
    "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 80,
    "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 2,
}  # fmt: skip

ENCODERS: dict[str, Make] = {
    "bert": alone("BertForMaskedLM"),
    "bert, base, eager": alone("BertModel", attention="eager"),
    "bert, classifier": alone("BertForSequenceClassification", num_labels=3),
    "bert, tagger, bfloat16": alone("BertForTokenClassification", dtype=torch.bfloat16),
    "roberta": alone("RobertaForMaskedLM"),
    "xlm-roberta": alone("XLMRobertaForMaskedLM"),
    "camembert": alone("CamembertForMaskedLM"),
    "modernbert": alone(
        "ModernBertForMaskedLM", SIZES, num_hidden_layers=4, local_attention=8,
        global_attn_every_n_layers=2, cls_token_id=1, sep_token_id=2,
    ),
    "electra": alone("ElectraForMaskedLM", SIZES, embedding_size=16),
    "distilbert": alone(
        "DistilBertForMaskedLM", SIZES, dim=32, n_layers=2, n_heads=4, hidden_dim=64,
    ),
    "albert": alone("AlbertForMaskedLM", SIZES, embedding_size=16),
    "deberta": alone("DebertaForMaskedLM", SIZES, relative_attention=True, pos_att_type="c2p|p2c"),
    "deberta-v2": alone(
        "DebertaV2ForMaskedLM", SIZES, relative_attention=True, pos_att_type="c2p|p2c"
    ),
    "mpnet": alone("MPNetForMaskedLM"),
    "eurobert": alone("EuroBertForMaskedLM", GROUPED),
    "longformer": alone("LongformerForMaskedLM", SIZES, attention_window=4),
    "bigbird": alone("BigBirdForMaskedLM", SIZES, block_size=2, num_random_blocks=1),
    "bigbird, full": alone("BigBirdForMaskedLM", SIZES, attention_type="original_full"),
    "roformer": alone("RoFormerForMaskedLM", SIZES, embedding_size=32),
    "t5, encoder": alone("T5EncoderModel", T5),
    "umt5, encoder": alone("UMT5EncoderModel", T5),
    "esm": alone("EsmForMaskedLM", SIZES, mask_token_id=3, position_embedding_type="rotary"),
    "nomic": alone("NomicBertForMaskedLM"),
    "squeezebert": alone("SqueezeBertForMaskedLM", SIZES, embedding_size=32),
    "fnet": alone("FNetForMaskedLM"),
    "luke": alone("LukeForMaskedLM", SIZES, entity_vocab_size=20, entity_emb_size=16),
    "ibert": alone("IBertForMaskedLM"),
    "megatron-bert": alone("MegatronBertForMaskedLM"),
    "rembert": alone(
        "RemBertForMaskedLM", SIZES, input_embedding_size=16, output_embedding_size=16,
    ),
}  # fmt: skip

ENCODER_DECODERS: dict[str, Make] = {
    "bart": alone("BartForConditionalGeneration", BOTH),
    "mbart": alone("MBartForConditionalGeneration", BOTH),
    "pegasus": alone("PegasusForConditionalGeneration", BOTH),
    "marian": alone("MarianMTModel", BOTH),
    "blenderbot": alone("BlenderbotForConditionalGeneration", BOTH),
    "m2m_100": alone("M2M100ForConditionalGeneration", BOTH),
    "plbart": alone("PLBartForConditionalGeneration", BOTH),
    "t5": alone("T5ForConditionalGeneration", T5),
    "umt5": alone("UMT5ForConditionalGeneration", T5),
    "longt5": alone("LongT5ForConditionalGeneration", T5, local_radius=4),
    "led": alone(
        "LEDForConditionalGeneration", BOTH, attention_window=4,
        max_encoder_position_embeddings=64,
    ),
}  # fmt: skip
