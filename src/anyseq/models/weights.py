"""Where the weights of Hugging Face models go in an `nn.Transformer`, family by family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from anyseq.errors import UnsupportedModel
from anyseq.nn import Norms

_PLAIN = {"relu": "relu", "gelu": "gelu", "silu": "silu", "gelu_new": "gelu_tanh",
          "gelu_pytorch_tanh": "gelu_tanh"}  # fmt: skip
_GATED = {"silu": "swiglu", "gelu": "geglu", "gelu_pytorch_tanh": "geglu_tanh"}

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Taken:
    """settings: the arguments of a Transformer but its design; tensors: its state."""

    settings: dict[str, Any]
    tensors: Tensors


def _gpt2(model: Any) -> Taken:
    config, state = model.config, model.base_model.state_dict()
    tensors = {
        "embedding": state["wte.weight"],
        "position.table": state["wpe.weight"],
        **_both("final_norm", state, "ln_f"),
    }
    for i in range(config.n_layer):
        h, block = f"h.{i}", f"blocks.{i}"
        # their matrices are the other way round
        weights = state[f"{h}.attn.c_attn.weight"].T.chunk(3)
        biases = state[f"{h}.attn.c_attn.bias"].chunk(3)
        for name, weight, bias in zip("qkv", weights, biases, strict=True):
            # scores that are divided by the layer's number: its queries are
            share = i + 1 if name == "q" and config.scale_attn_by_inverse_layer_idx else 1
            tensors[f"{block}.mixer.{name}_proj.weight"] = weight / share
            tensors[f"{block}.mixer.{name}_proj.bias"] = bias / share
        for ours, theirs in (
            ("mixer.o_proj", "attn.c_proj"),
            ("feedforward.up_proj", "mlp.c_fc"),
            ("feedforward.down_proj", "mlp.c_proj"),
        ):
            tensors[f"{block}.{ours}.weight"] = state[f"{h}.{theirs}.weight"].T
            tensors[f"{block}.{ours}.bias"] = state[f"{h}.{theirs}.bias"]
        tensors |= _both(f"{block}.mixer_norm", state, f"{h}.ln_1")
        tensors |= _both(f"{block}.feedforward_norm", state, f"{h}.ln_2")
    settings = {
        "dim": config.n_embd,
        "depth": config.n_layer,
        "heads": config.n_head,
        "hidden": config.n_inner or 4 * config.n_embd,
        "activation": _activation(model, _PLAIN, config.activation_function),
        "norms": Norms("layernorm", config.layer_norm_epsilon),
        "biases": "qkvo",
        "scale": None if config.scale_attn_weights else 1.0,
        "causal": True,
    }
    return _with_head(model, settings, tensors)


def _bert(model: Any) -> Taken:
    config, state = model.config, model.base_model.state_dict()
    types = state["embeddings.token_type_embeddings.weight"]
    tensors = {
        "embedding": state["embeddings.word_embeddings.weight"],
        # every token is of type 0 unless it is said otherwise
        "position.table": state["embeddings.position_embeddings.weight"] + types[0],
        **_both("input_norm", state, "embeddings.LayerNorm"),
    }
    names = {
        "mixer.q_proj": "attention.self.query",
        "mixer.k_proj": "attention.self.key",
        "mixer.v_proj": "attention.self.value",
        "mixer.o_proj": "attention.output.dense",
        "mixer_norm": "attention.output.LayerNorm",
        "feedforward.up_proj": "intermediate.dense",
        "feedforward.down_proj": "output.dense",
        "feedforward_norm": "output.LayerNorm",
    }
    for i in range(config.num_hidden_layers):
        for ours, theirs in names.items():
            tensors |= _both(f"blocks.{i}.{ours}", state, f"encoder.layer.{i}.{theirs}")
    settings = _usual(config) | {
        "activation": _activation(model, _PLAIN, config.hidden_act),
        "norms": Norms("layernorm", config.layer_norm_eps),
        "biases": "qkvo",
        "input_norm": True,
        "causal": bool(config.is_decoder),
    }
    return _with_head(model, settings, tensors)


def _modernbert(model: Any) -> Taken:
    config, state = model.config, model.base_model.state_dict()
    tensors = {
        "embedding": state["embeddings.tok_embeddings.weight"],
        **_both("input_norm", state, "embeddings.norm"),
        **_both("final_norm", state, "final_norm"),
    }
    for i in range(config.num_hidden_layers):
        layer, block = f"layers.{i}", f"blocks.{i}"
        for kind in ("weight", "bias"):
            joined = state.get(f"{layer}.attn.Wqkv.{kind}")
            if joined is not None:
                for name, part in zip("qkv", joined.chunk(3), strict=True):
                    tensors[f"{block}.mixer.{name}_proj.{kind}"] = part
            joined = state.get(f"{layer}.mlp.Wi.{kind}")
            if joined is not None:
                gate, up = joined.chunk(2)
                tensors[f"{block}.feedforward.gate_proj.{kind}"] = gate
                tensors[f"{block}.feedforward.up_proj.{kind}"] = up
        tensors |= _both(f"{block}.mixer.o_proj", state, f"{layer}.attn.Wo")
        tensors |= _both(f"{block}.feedforward.down_proj", state, f"{layer}.mlp.Wo")
        tensors |= _both(f"{block}.mixer_norm", state, f"{layer}.attn_norm")
        tensors |= _both(f"{block}.feedforward_norm", state, f"{layer}.mlp_norm")
    settings = _usual(config) | {
        "activation": _activation(model, _GATED, config.hidden_activation),
        "norms": Norms("layernorm", config.norm_eps, config.norm_bias),
        "biases": "qkvo" if config.attention_bias else "",
        "feedforward_bias": config.mlp_bias,
        "input_norm": True,
        "first_norm": False,
    }
    return _with_head(model, settings, tensors)


def _llama(model: Any) -> Taken:
    config, state = model.config, model.base_model.state_dict()
    sandwich = "layers.0.pre_feedforward_layernorm.weight" in state
    gemma = config.model_type.startswith("gemma")
    names = {
        **{f"mixer.{name}_proj": f"self_attn.{name}_proj" for name in "qkvo"},
        **{f"feedforward.{name}_proj": f"mlp.{name}_proj" for name in ("gate", "up", "down")},
        "mixer_norm": "input_layernorm",
        "mixer.q_norm": "self_attn.q_norm",
        "mixer.k_norm": "self_attn.k_norm",
    }
    if sandwich:
        names["mixer_out_norm"] = "post_attention_layernorm"
        names["feedforward_norm"] = "pre_feedforward_layernorm"
        names["feedforward_out_norm"] = "post_feedforward_layernorm"
    else:
        names["feedforward_norm"] = "post_attention_layernorm"
    tensors = {"embedding": state["embed_tokens.weight"], **_both("final_norm", state, "norm")}
    for i in range(config.num_hidden_layers):
        for ours, theirs in names.items():
            tensors |= _both(f"blocks.{i}.{ours}", state, f"layers.{i}.{theirs}")
    if gemma:  # whose norms multiply by 1 + w
        tensors = {
            name: 1 + tensor if "norm" in name else tensor for name, tensor in tensors.items()
        }
    scalar = getattr(config, "query_pre_attn_scalar", None)
    activation = getattr(config, "hidden_activation", None) or config.hidden_act
    settings = _usual(config) | {
        "kv_heads": config.num_key_value_heads,
        "head_dim": getattr(config, "head_dim", None),
        "activation": _activation(model, _GATED, activation),
        "norms": Norms("rmsnorm", config.rms_norm_eps),
        "biases": "".join(
            name for name in "qkvo" if f"layers.0.self_attn.{name}_proj.bias" in state
        ),
        "feedforward_bias": "layers.0.mlp.up_proj.bias" in state,
        "qk_norm": "rmsnorm" if "layers.0.self_attn.q_norm.weight" in state else None,
        "scale": None if scalar is None else scalar**-0.5,
        "embedding_scale": config.hidden_size**0.5 if gemma else 1.0,
        "causal": not getattr(config, "use_bidirectional_attention", False),
    }
    return _with_head(model, settings, tensors)


FAMILIES: dict[str, Callable[[Any], Taken]] = {
    "bert": _bert,
    "gemma3_text": _llama,
    "gpt2": _gpt2,
    "llama": _llama,
    "mistral": _llama,
    "modernbert": _modernbert,
    "qwen2": _llama,
    "qwen3": _llama,
}
"""By the model_type of a config."""


def _usual(config: Any) -> dict[str, Any]:
    """Arguments that go by the same name in most configs."""
    return {
        "dim": config.hidden_size,
        "depth": config.num_hidden_layers,
        "heads": config.num_attention_heads,
        "hidden": config.intermediate_size,
    }


def _with_head(model: Any, settings: dict[str, Any], tensors: Tensors) -> Taken:
    """With the language head, if the model has one."""
    last, first = model.get_output_embeddings(), tensors["embedding"]
    whole = model.state_dict()
    kind = "none"
    if last is not None:
        tied = last.weight.data_ptr() == first.data_ptr()
        kind = "tied" if tied else "untied"
        dense = [
            name for name in whole if name.endswith(("transform.dense.weight", "head.dense.weight"))
        ]
        if dense:
            kind = "masked-lm" if tied else "masked-lm-untied"
            start = dense[0].removesuffix("dense.weight")
            norm = "LayerNorm" if f"{start}LayerNorm.weight" in whole else "norm"
            tensors |= _both("head.dense", whole, f"{start}dense")
            tensors |= _both("head.norm", whole, f"{start}{norm}")
            tensors.setdefault("head.dense.bias", torch.zeros_like(whole[dense[0]][:, 0]))
            bias = last.bias
            tensors["head.bias"] = torch.zeros_like(first[:, 0]) if bias is None else bias.detach()
        elif last.bias is not None:
            raise UnsupportedModel(f"{type(model).__name__}: its head is of an unknown kind")
        if not tied:
            tensors["head.weight"] = last.weight.detach()
    elif model.base_model is not model:
        raise UnsupportedModel(
            f"{type(model).__name__}: its head gives no logits of ids; expected the bare model, "
            f"{type(model.base_model).__name__}, or one with a language head"
        )
    return Taken(settings | {"vocab": len(first), "head": kind}, tensors)


def _both(ours: str, state: Tensors, theirs: str) -> Tensors:
    """Weight and bias under anyseq's name, if they are there."""
    return {
        f"{ours}.{kind}": state[f"{theirs}.{kind}"]
        for kind in ("weight", "bias")
        if f"{theirs}.{kind}" in state
    }


def _activation(model: Any, names: dict[str, str], said: str) -> str:
    if said not in names:
        raise UnsupportedModel(
            f"{type(model).__name__}: its activation is {said!r}; expected one of "
            f"{', '.join(names)}"
        )
    return names[said]
