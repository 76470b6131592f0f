"""A little of everything, in an environment that has the package and no extra: see package.py."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

import anyseq as aq
from anyseq.errors import MissingExtra


def main() -> None:
    for extra in ("matplotlib", "transformers", "onnx", "ortools", "flint", "accelerate", "einops"):
        assert find_spec(extra) is None, f"{extra} is not among what the wheel asks for"

    rng = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 100, 8, generator=rng, requires_grad=True) for _ in range(3))
    out = aq.attention(q, k, v, pattern="window(4)|global(0)")
    mask = (aq.Window(4) | aq.Global((0,))).mask(100)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert (out - expected).abs().max() < 1e-5
    out.sum().backward()

    assert aq.check(aq.Design(8, aq.Star(1))).universal is True
    assert aq.check(aq.Design(8, position=aq.Rotary())).universal is False

    result = aq.approximate(aq.functions["reverse"], aq.Design(tokens=2), features=1, tol=0.25)
    x = torch.rand(1, 2, 1, generator=rng, dtype=torch.float64)
    assert (result(x) - x.flip(-2)).abs().max() <= 0.25

    model = aq.nn.Transformer(aq.Design(16, aq.Causal()), dim=8, depth=1, heads=2, vocab=5)
    model.save("model")
    ids = torch.tensor([[1, 2, 3]])
    assert torch.equal(aq.nn.Transformer.load("model")(ids), model(ids))

    for needs, extra in ((lambda: aq.show(aq.Window(2)), "plots"), (lambda: aq.hf, "hf")):
        asked = ""
        try:
            needs()
        except MissingExtra as problem:
            asked = str(problem)
        assert f"anyseq[{extra}]" in asked

    assert "site-packages" in Path(aq.__file__).parts
    sys.stdout.write(f"torch {torch.__version__}, numpy {np.__version__}: ok\n")


if __name__ == "__main__":
    main()
