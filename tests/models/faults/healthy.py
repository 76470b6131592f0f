"""Healthy models: an audit finds nothing in them, and makes all checks that can be made."""

from __future__ import annotations

from functools import partial
from typing import Any

from models.faults.decoders import DECODERS
from models.faults.encoders import ENCODER_DECODERS, ENCODERS
from models.faults.families import Make
from models.faults.modules import OWN, PLAIN


def _config(kind: str, layers: int) -> tuple[Any, Any]:
    return {"model_type": kind, "num_hidden_layers": layers}, None


_LAYERS = {"bert": 2, "bert-generation": 2, "gemma3_text": 6, "mistral": 2, "modernbert": 4,
           "smollm3": 4, "qwen3_5_text": 4, "mamba": 2}  # fmt: skip
CONFIGS: dict[str, Make] = {
    f"{kind}, config": partial(_config, kind, layers) for kind, layers in _LAYERS.items()
}
HEALTHY: dict[str, Make] = DECODERS | ENCODERS | ENCODER_DECODERS | OWN | PLAIN | CONFIGS

_ALWAYS = {"random", "rows", "layers", "outputs"}
_CAUSAL = {"cache", "identical"}
_LIBRARY = {"padding", "documents", "implementations"}

NOT_CHECKED: list[tuple[str, set[str], str]] = [
    (
        "encoders are not decoded",
        _CAUSAL,
        "bert, config; bert-generation, config; modernbert, config",
    ),
    (
        "it attends by code of its own, not by a function of a name",
        {"implementations"},
        "bloom; codegen; falcon; falcon, alibi; gpt_neo; gptj; mamba; mamba, config; mamba2; mpt; "
        "openai-gpt; xglm; bigbird; bigbird, full; deberta; deberta-v2; fnet; ibert; longformer; "
        "luke; megatron-bert; mpnet; rembert; roformer; squeezebert",
    ),
    ("it takes no position_ids, and masks of two dimensions only", {"documents"},
     "bloom; mamba; mamba, config"),
    ("it takes no mask at all", {"padding"}, "fnet"),
    ("it has no cache", {"cache"}, "openai-gpt"),
    ("eager and sdpa do not know its pattern", {"implementations"}, "own, after use with a window"),
    ("its pattern is for one length, or another one for each",
     {"padding"}, "own, star; own, BigBird; own, grid; own, shifted windows"),
    ("it has layers of which nothing is declared", {"outputs"}, "own, mixers"),
]  # fmt: skip
"""Why some checks are not made, which, and of which models."""


def checks(name: str) -> set[str]:
    """What an audit is to check of a healthy model."""
    if name in ENCODER_DECODERS:
        parts = {f"{part}: {one}" for part in ("encoder", "decoder") for one in _ALWAYS}
        return parts | {"encoder: padding", "decoder: padding"} | {"decoder: cache"}
    if name in PLAIN:
        return set(_ALWAYS)
    if name in OWN and not name.startswith("own, after use"):
        made = _ALWAYS | {"padding"}
    else:
        made = _ALWAYS | _LIBRARY
    if name in DECODERS or name in CONFIGS or name == "own, after use":
        made |= _CAUSAL
    return made - {
        one for _, some, names in NOT_CHECKED if name in names.split("; ") for one in some
    }
