"""docs/index.md: its blocks run in order, given a function and a model."""

import re
from pathlib import Path

import torch

import anyseq as aq

PAGE = (Path(__file__).parents[2] / "docs" / "index.md").read_text()


def f(x: torch.Tensor) -> torch.Tensor:
    return x.flip(1)


def test_the_four_verbs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 5
    model = aq.nn.Transformer(aq.Design(12, "causal & window(3)"), dim=8, depth=1)
    exec("\n".join(blocks), {"f": f, "model": model})
    for verb in ("check", "audit", "approximate", "train"):
        assert f"**[{verb}](" in PAGE
