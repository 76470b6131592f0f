"""The gallery: well-known designs, drawn and asked when the site is built.

`{designs}` stands for all of them: name, a sentence, code, pictures, and what `check` says.
"""

from dataclasses import dataclass

from sphinx.application import Sphinx

import anyseq as aq

MARK = "```{designs}\n```"


@dataclass(frozen=True)
class Known:
    """A design, small enough to draw. `code` is one expression; `target` what it is asked for."""

    name: str
    says: str
    code: str
    target: str = "all"


DESIGNS = (
    Known(
        "Dense",
        "Every token attends to every token, and learned vectors tell positions: the first "
        "Transformer that was proved universal.",
        "aq.Design(32)",
    ),
    Known(
        "Dense, without positions",
        "The same without positions: permuting the tokens permutes the outputs.",
        "aq.Design(32, position=aq.NoPosition())",
    ),
    Known(
        "BERT",
        "An encoder of learned positions whose first token, [CLS], is always the same.",
        'aq.Design(32, position=aq.Absolute(), bos=True, block_norm="post", head=True)',
    ),
    Known(
        "GPT-2",
        "Causal attention with learned positions.",
        'aq.Design(32, "causal", aq.Absolute(), block_norm="pre", head=True)',
        "causal",
    ),
    Known(
        "Llama",
        "Causal attention with rotary positions. Without a BOS token it cannot count equal tokens.",
        'aq.Design(32, "causal", aq.Rotary(), domain="ids",\n    block_norm="pre", head=True)',
        "causal",
    ),
    Known(
        "Llama, BOS first",
        "One token that differs from all others is enough.",
        'aq.Design(32, "causal", aq.Rotary(), bos=True, domain="ids",\n'
        '    block_norm="pre", head=True)',
        "causal",
    ),
    Known(
        "NoPE",
        "Causal attention without positions; the mask and BOS tell them.",
        'aq.Design(32, "causal", aq.NoPosition(), bos=True)',
        "causal",
    ),
    Known(
        "ALiBi",
        "A penalty that grows with distance. Without a BOS token equal tokens stay equal.",
        'aq.Design(32, "causal", aq.ALiBi())',
        "causal",
    ),
    Known(
        "URPE",
        "Relative biases before the softmax, and relative gains after it.",
        "aq.Design(32, position=aq.URPE())",
    ),
    Known(
        "Mistral",
        "Causal windows: distant tokens are reached through several layers.",
        'aq.Design(32, "causal & window(4)", aq.Rotary(), bos=True)',
        "causal",
    ),
    Known(
        "Gemma 3",
        "Five layers of causal windows, then one without.",
        "aq.Design(32, layers=[aq.Layer(aq.Causal() & aq.Window(4), aq.Rotary())] * 5\n"
        "    + [aq.Layer(aq.Causal(), aq.Rotary(base=1e6))], position=aq.NoPosition(), bos=True)",
        "causal",
    ),
    Known(
        "GPT-OSS",
        "Layers of windows and dense layers in turn, with a learned sink in every head.",
        "aq.Design(32, layers=[aq.Layer(aq.Causal() & aq.Window(4), aq.Rotary(), sinks=True),\n"
        "    aq.Layer(aq.Causal(), aq.Rotary(), sinks=True)], position=aq.NoPosition())",
        "causal",
    ),
    Known(
        "Longformer",
        "A window, and global tokens that attend to all and that all attend to.",
        "aq.Design(32, aq.Longformer(2, (0,)))",
    ),
    Known(
        "BigBird",
        "Blocks: a window of them, global ones, and a few at random.",
        "aq.Design(32, aq.BigBird(block=2, window=3, globals=1, random=1))",
    ),
    Known(
        "Sparse Transformer, strided",
        "A window of ℓ, and every ℓ-th token.",
        "aq.Design(32, aq.Strided(6))",
    ),
    Known(
        "Sparse Transformer, fixed",
        "The own block, and the last token of every block.",
        "aq.Design(32, aq.Fixed(6))",
    ),
    Known(
        "Star-Transformer",
        "A ring, and a hub that everything passes through.",
        "aq.Design(32, aq.Star(1))",
    ),
    Known(
        "Log-sparse",
        "Distances that are powers of two.",
        "aq.Design(32, aq.LogSparse())",
    ),
    Known(
        "ViT",
        "Patches of an image in row order, learned positions, a class token first.",
        'aq.Design(25, position=aq.Absolute(), bos=True, block_norm="pre")',
    ),
    Known(
        "Swin",
        "Windows of an image, shifted by half a window in every second layer, with a bias for "
        "each offset of two cells.",
        "aq.Design(36, layers=[aq.Layer(aq.ShiftedWindows((6, 6), 3, shift), aq.GridBias((6, 6)))\n"
        "    for shift in (0, 1)], position=aq.NoPosition())",
    ),
    Known(
        "Jamba-like hybrid",
        "Recurrences tell positions: no BOS token is needed.",
        "aq.Design(32, layers=[aq.Layer(mixer=aq.Recurrence())] * 3\n"
        '    + [aq.Layer("causal", aq.NoPosition())], position=aq.NoPosition())',
        "causal",
    ),
)

ANSWERS = {True: "yes", False: "no", None: "unknown"}


def asked(known: Known) -> list[tuple[str, str]]:
    """What `check` says of it, in each norm, with the reason."""
    design = eval(known.code, {"aq": aq})
    answers = []
    for norm, words in (("sup", "sup norm"), ("lp", "L^p")):
        verdict = aq.check(design, norm=norm, target=known.target)
        reason = verdict.reason[0].lower() + verdict.reason[1:].rstrip(".")
        answers.append((words, f"**{ANSWERS[verdict.universal]}**, {reason}"))
    return answers


def card(known: Known) -> list[str]:
    """Its section, as Markdown."""
    kind = {"all": "every function", "causal": "every causal function"}[known.target]
    lines = [f"## {known.name}", "", known.says, ""]
    lines += ["```python", *f"design = {known.code}".split("\n")]
    lines += [f'aq.check(design, target="{known.target}")', "```", ""]
    lines += [f"```{{picture}} {known.name}: mask and reach"]
    lines += [f"drawing.mask_and_reach({known.code})", "```", ""]
    lines += [f"Can it express {kind}?", ""]
    lines += [f"- in {norm}: {says}" for norm, says in asked(known)]
    return [*lines, ""]


def _expand(app: Sphinx, page: str, source: list[str]) -> None:
    if MARK in source[0]:
        text = "\n".join(line for known in DESIGNS for line in card(known))
        source[0] = source[0].replace(MARK, text)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _expand)
    return {"parallel_read_safe": True}
