"""One rotary plane is enough (docs/theorems.md, Lemma 3): heads of size 2, every frequency 1."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anyseq as aq
from anyseq.graph import refine


@settings(max_examples=40)
@given(st.integers(3, 6), st.booleans(), st.booleans(), st.integers(0, 2**36 - 1))
def test_random_networks_tell_apart_what_the_refinement_does(
    tokens: int, bos: bool, sinks: bool, bits: int
) -> None:
    """On identical tokens, at depth 3, whatever the mask."""
    size = tokens + bos
    mask = torch.tensor([bits >> k & 1 for k in range(size * size)]).bool().view(size, size)
    design = aq.Design(tokens, mask, position=aq.Rotary(base=1.0), bos=bos, sinks=sinks, depth=3)
    classes = len(np.unique(refine(design).classes))
    torch.manual_seed(0)
    model = aq.nn.Transformer(design, dim=16, depth=3, heads=8, norm="none").double()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.7)
        out = model(torch.full((1, tokens, 16), 0.3).double())[0]
    apart = torch.cdist(out, out) > 1e-9 * out.abs().max()
    found = len({tuple(row.tolist()) for row in apart})
    assert found == classes
