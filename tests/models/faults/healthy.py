"""Healthy models, and which checks an audit makes of each."""

from __future__ import annotations

from models.faults.decoders import DECODERS
from models.faults.encoders import ENCODER_DECODERS, ENCODERS
from models.faults.families import Make
from models.faults.modules import OWN, PLAIN

CONFIGS: dict[str, Make] = {
    f"{kind}, config": (lambda kind=kind: ({"model_type": kind, "num_hidden_layers": 6}, None))
    for kind in ("bert", "gemma3_text", "mistral", "modernbert", "smollm3", "qwen3_5_text", "mamba")
}
HEALTHY: dict[str, Make] = (
    DECODERS | ENCODERS | ENCODER_DECODERS | OWN | PLAIN | CONFIGS
)  # fmt: skip
