"""All-max-shift and the carried maximum, as attention really computes them."""

import pytest
import torch

import anyseq as aq
from anyseq.construct.contextual.route import Route
from anyseq.construct.contextual.sparse import SparseContextual
from anyseq.construct.gadgets import deciding_gap
from anyseq.construct.methods.yun.shifts import sparse_shifts
from anyseq.nn import Stack
from construct.networks import is_literal
from construct.sparse import PATTERNS


@pytest.mark.parametrize("prob_map", ["softmax", "sparsemax", "entmax15", "hardmax"])
@pytest.mark.parametrize("carried", [False, True])
@pytest.mark.parametrize("name", PATTERNS)
def test_attention_shifts_exactly_as_the_integers_do(
    name: str, carried: bool, prob_map: str
) -> None:
    for tokens, d, w, k in [(2, 1, 1, 2), (3, 1, 2, 1), (3, 2, 2, 1), (4, 1, 1, 1)]:
        design = aq.Design(tokens, PATTERNS[name], prob_map=prob_map)
        route = Route.through(design, 2)
        context = SparseContextual(tokens, d, w, k, route, 0, carried)
        if context.largest.bit_length() > 53 - context.spare_bits:
            continue
        step = 1 / context.steps
        digits = torch.tensor([*context.digits, 0])
        runs = sparse_shifts(
            context,
            step=step,
            digits=digits.tolist(),
            gap=deciding_gap(design.probability),
            lift=2 * step,
        )
        assert all(map(is_literal, runs))
        assert sum(map(len, runs)) == context.size.layers
        sequences = context.sequences()
        z = torch.zeros(*sequences.shape, w + 1, dtype=torch.float64)
        z[..., :d] = (sequences[:, :, None] // digits[:d] % context.steps).double() * step
        z[..., :w] += torch.tensor(context.offsets)[:, None]
        with torch.no_grad():
            out = Stack.of(design, runs, in_features=w + 1, out_features=w + 1)(z)
        made = out @ digits.double() / step
        assert torch.equal(made, context.final_ids(sequences).double() + 2)
        assert (out[..., -1] == 0).all()
