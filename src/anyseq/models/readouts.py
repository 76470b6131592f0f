"""Which output a model's head reads, where that is sure from its source."""

from __future__ import annotations

_LAST = (
    "arcee axk1 axk2 bloom ctrl deepseek_v2 deepseek_v3 diffllama doge exaone4 falcon gemma gemma2 "
    "gemma3_text glm glm4 gpt2 gpt_bigcode gpt_neo gpt_neox gpt_oss gptj helium hunyuan_v1_dense "
    "hunyuan_v1_moe jamba jetmoe llama minicpm3 minimax ministral ministral3 mistral mistral4 "
    "mixtral mpt nemotron olmo olmo2 olmo3 openai-gpt opt persimmon phi phi3 phimoe qwen2 "
    "qwen2_moe qwen3 qwen3_moe qwen3_next seed_oss smollm3 stablelm starcoder2"
)
_FIRST = (
    "albert bert big_bird camembert convbert deberta deberta-v2 distilbert electra ernie esm "
    "layoutlm megatron-bert mobilebert mpnet rembert roberta roformer xlm-roberta "
    "xlm-roberta-xl"
)


def readout_of(model_type: str, kind: str | None) -> str | int:
    """ "last" or 0, for a classifier of sequences that reads the last output or the first;
    otherwise "all".

    kind: the name of its class. Without padding the last output is that of the last token.
    """
    if kind is None or not kind.endswith("ForSequenceClassification"):
        return "all"
    if model_type in _LAST.split():
        return "last"
    return 0 if model_type in _FIRST.split() else "all"
