"""`anyseq bench hf`: a training step of Hugging Face models as they are, by `anyseq.hf.use(model)`
and by transformers' own attention.

A few layers, with the heads, windows and kinds of layers of the real models, and random weights.
Memory is measured in a process of its own for each; times quiet, and beside busy processes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from anyseq.base import Progress, extra_bytes, generator, has_high_water_mark, medians, silent
from anyseq.bench.busy import busy

ROUNDS = 3
TOKENS = (1024, 4096)
TINY_TOKENS = (48,)
ATTENTIONS = ("eager", "sdpa", "anyseq")

_VOCABULARY = 1000
_LOCAL, _WHOLE = "sliding_attention", "full_attention"
_COMMON: dict[str, Any] = {"vocab_size": _VOCABULARY, "pad_token_id": 0, "use_cache": False}

SHAPES: Mapping[str, dict[str, Any]] = {
    # answerdotai/ModernBERT-base, 3 of 22 layers
    "ModernBERT": {
        "hidden_size": 768,
        "intermediate_size": 1152,
        "num_attention_heads": 12,
        "local_attention": 128,
        "layer_types": [_WHOLE, _LOCAL, _LOCAL],
    },
    # google/gemma-3-270m, 6 of 18 layers
    "Gemma3": {
        "hidden_size": 640,
        "intermediate_size": 2048,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "sliding_window": 512,
        "layer_types": [*[_LOCAL] * 5, _WHOLE],
    },
    # openai/gpt-oss-20b, 2 of 24 layers, a quarter of the heads and of the width, 2 experts of 32
    "gpt-oss": {
        "hidden_size": 720,
        "intermediate_size": 720,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "sliding_window": 128,
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
        "layer_types": [_LOCAL, _WHOLE],
    },
}
_TINY = {"hidden_size": 96, "intermediate_size": 64, "sliding_window": 8, "local_attention": 8}


def bench_hf(
    progress: Progress = silent, *, beside: int = 2, quick: bool = False
) -> dict[str, Any]:
    """Per model, length and attention: seconds of a training step, forward and backward, seconds
    beside so many busy processes, and its peak memory.

    quick: tiny models and one short sequence, which measure nothing.
    """
    lengths: Sequence[int] = TINY_TOKENS if quick else TOKENS
    cases = [(name, tokens) for name in SHAPES for tokens in lengths]
    rows = []
    for done, (name, tokens) in enumerate(cases):
        progress("training steps", done, len(cases))
        rows += _case(name, tokens, beside, quick)
    progress("training steps", len(cases), len(cases))
    return {"threads": torch.get_num_threads(), "beside": beside, "hf": rows}


def _case(name: str, tokens: int, beside: int, quick: bool) -> list[dict[str, Any]]:
    steps = {one: step(name, tokens, one, quick) for one in attentions(name)}
    quiet, crowded = medians(steps, ROUNDS), {}
    if beside:
        with busy(beside):
            crowded = medians(steps, ROUNDS)
    return [
        {
            "model": name,
            "tokens": tokens,
            "attention": one,
            "seconds": quiet[one],
            "beside_seconds": crowded.get(one),
            "extra_bytes": _peak(name, tokens, one, quick),
        }
        for one in steps
    ]


def attentions(name: str) -> tuple[str, ...]:
    """Those that the model has: transformers' sdpa has no sinks."""
    return tuple(one for one in ATTENTIONS if (name, one) != ("gpt-oss", "sdpa"))


def step(name: str, tokens: int, attention: str, quick: bool) -> Callable[[], None]:
    """A training step of one sequence."""
    model = _model(name, tokens, attention, quick)
    ids = torch.randint(3, _VOCABULARY, (1, tokens), generator=generator(0))

    def run() -> None:
        model.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()

    return run


def _model(name: str, tokens: int, attention: str, quick: bool) -> Any:
    import transformers

    kind = {"ModernBERT": "ModernBert", "Gemma3": "Gemma3Text", "gpt-oss": "GptOss"}[name]
    head = {"ModernBERT": "ModernBertForMaskedLM", "Gemma3": "Gemma3ForCausalLM"}
    shape = SHAPES[name] | _COMMON | {"max_position_embeddings": tokens}
    if quick:
        shape |= {key: value for key, value in _TINY.items() if key in shape}
    shape |= {"num_hidden_layers": len(shape["layer_types"])}
    shape |= {"bos_token_id": 1, "eos_token_id": 2}
    if name == "ModernBERT":
        shape |= {"cls_token_id": 1, "sep_token_id": 2}
        shape.pop("use_cache")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = getattr(transformers, f"{kind}Config")(**shape)
        model = getattr(transformers, head.get(name, "GptOssForCausalLM"))(config).train()
    if attention == "anyseq":
        from anyseq.hf import use

        return use(model)
    model.set_attn_implementation(attention)
    return model


def _peak(name: str, tokens: int, attention: str, quick: bool) -> int | None:
    """The memory of the first step, in a separate process, since later ones reuse what it left;
    None where the kernel does not report it. The gradients of the weights are in it, for every
    attention alike."""
    if not has_high_water_mark():
        return None
    case = json.dumps([name, tokens, attention, quick])
    command = [sys.executable, "-m", "anyseq.bench.hf", case, str(torch.get_num_threads())]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout)


def main(case: str, threads: str) -> None:
    """The memory that a case takes, written to stdout."""
    torch.set_num_threads(int(threads))
    run = step(*json.loads(case))
    sys.stdout.write(str(extra_bytes(run)))


if __name__ == "__main__":
    main(*sys.argv[1:])
