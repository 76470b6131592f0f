"""Weights of Hugging Face models in a Transformer: equal outputs, and trainable after that."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import transformers

import anyseq as aq
from anyseq.errors import InvalidArgument, UnsupportedModel

SIZES: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}
SCALINGS = {
    "llama3": {
        "rope_theta": 5e5,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    },
    "yarn": {"rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16},
    "linear": {"rope_theta": 1e4, "factor": 4.0},
}
ALTERNATING = ["sliding_attention", "full_attention", "sliding_attention"]
LOCAL: dict[str, Any] = {"local_attention": 8, "global_attn_every_n_layers": 2, "pad_token_id": 0}


def llama(**options: Any) -> Any:
    config = transformers.LlamaConfig(**SIZES, num_key_value_heads=2, **options)
    return transformers.LlamaForCausalLM(config)


MODELS: dict[str, Callable[[], Any]] = {
    "gpt2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=61, n_embd=32, n_layer=3, n_head=4, n_positions=64)
    ),
    "gpt2-scaled-by-layer": lambda: transformers.GPT2Model(
        transformers.GPT2Config(
            vocab_size=61,
            n_embd=32,
            n_layer=3,
            n_head=4,
            n_positions=64,
            scale_attn_by_inverse_layer_idx=True,
        )
    ),
    "bert": lambda: transformers.BertModel(transformers.BertConfig(**SIZES)),
    "bert-mlm": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**SIZES)),
    "bert-mlm-untied": lambda: transformers.BertForMaskedLM(
        transformers.BertConfig(**SIZES, tie_word_embeddings=False)
    ),
    "llama": llama,
    "llama-tied": lambda: llama(tie_word_embeddings=True, attention_bias=True, mlp_bias=True),
    **{
        kind: partial(llama, rope_parameters={"rope_type": kind} | scaling)
        for kind, scaling in SCALINGS.items()
    },
    "mistral": lambda: transformers.MistralForCausalLM(
        transformers.MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=5)
    ),
    "qwen2": lambda: transformers.Qwen2Model(
        transformers.Qwen2Config(**SIZES, num_key_value_heads=2)
    ),
    "qwen3": lambda: transformers.Qwen3ForCausalLM(
        transformers.Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=16)
    ),
    "gemma3": lambda: transformers.Gemma3ForCausalLM(
        transformers.Gemma3TextConfig(
            **SIZES,
            num_key_value_heads=2,
            head_dim=16,
            query_pre_attn_scalar=24,
            sliding_window=4,
            layer_types=ALTERNATING,
        )
    ),
    "gemma3-both-ways": lambda: transformers.Gemma3TextModel(
        transformers.Gemma3TextConfig(
            **SIZES,
            num_key_value_heads=2,
            head_dim=16,
            sliding_window=8,
            layer_types=ALTERNATING,
            use_bidirectional_attention=True,
            attn_logit_softcapping=5.0,  # in transformers Gemma 3 never looks at it
        )
    ),
    "modernbert-untied": lambda: transformers.ModernBertForMaskedLM(
        transformers.ModernBertConfig(**SIZES, **LOCAL, tie_word_embeddings=False)
    ),
    "modernbert": lambda: transformers.ModernBertForMaskedLM(
        transformers.ModernBertConfig(**SIZES, **LOCAL)
    ),
    "modernbert-bare": lambda: transformers.ModernBertModel(
        transformers.ModernBertConfig(**SIZES, **LOCAL, attention_bias=True, norm_bias=True)
    ),
}


def made(name: str) -> Any:
    torch.manual_seed(0)
    model = MODELS[name]()
    with torch.no_grad():  # away from what configs start with: norms of 1, biases of 0
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_equal(name: str) -> None:
    model = made(name)
    net = aq.convert(model)
    assert net.training == model.training
    ids = torch.randint(1, 61, (2, 64))
    with torch.no_grad():
        wanted, found = model.eval()(input_ids=ids)[0], net.eval()(ids)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)


def test_converted_weights_are_trained_with_another_pattern() -> None:
    model = made("llama").eval()
    net = aq.convert(model, tokens=32)
    layers = [aq.Layer(aq.Causal() & aq.Window(4), aq.URPE(aq.Rotary()))]
    sparse = net.with_design(net.design.with_layers(layers))
    ids = torch.randint(61, (4, 32))
    optimiser = torch.optim.AdamW(sparse.parameters(), lr=1e-2)
    losses = []
    for _ in range(12):
        loss = torch.nn.functional.cross_entropy(sparse(ids[:, :-1]).mT, ids[:, 1:])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 1
    assert torch.equal(net(ids), aq.convert(model, tokens=32)(ids))
    generated = aq.convert(model).generate(ids[:1, :8], 8)
    wanted = model.generate(ids[:1, :8], max_new_tokens=8, do_sample=False, pad_token_id=0)
    assert torch.equal(generated[:, : wanted.shape[1]], wanted)


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="expected a Hugging Face model"):
        aq.convert(torch.nn.Linear(2, 2))
    with pytest.raises(InvalidArgument, match="tokens=65: the model has positions for 64"):
        aq.convert(made("llama"), tokens=65)
    neox = transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**SIZES))
    with pytest.raises(UnsupportedModel, match="expected one of bert, "):
        aq.convert(neox)
    classifier = transformers.BertForSequenceClassification(transformers.BertConfig(**SIZES))
    with pytest.raises(UnsupportedModel, match="its head gives no logits of ids"):
        aq.convert(classifier)
    with pytest.raises(UnsupportedModel, match="its activation is 'relu2'"):
        aq.convert(llama(hidden_act="relu2"))


def test_a_model_that_does_more_than_was_read_is_refused() -> None:
    model = made("llama").eval()
    model.model.layers[1].mlp.register_forward_hook(lambda module, given, out: out + 1)
    with pytest.raises(UnsupportedModel, match="does something that reading did not find"):
        aq.convert(model)
