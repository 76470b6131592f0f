"""Theorem 5.2 against networks: if all tokens differ, outputs repeat only where they must."""

from __future__ import annotations

from itertools import permutations

import hypothesis.strategies as st
import torch
from hypothesis import given, settings

import anyseq as aq
from verdicts.designs import designs
from verdicts.networks import random_network

TOKENS = torch.tensor([0.11, 0.37, 0.62, 0.93], dtype=torch.float64)


@given(
    designs(feedforward=True, final_norm=None, depth=None, prob_map="softmax"),
    st.sampled_from(["all", "causal"]),
)
@settings(max_examples=120, deadline=None)
def test_outputs_over_all_orders_of_the_tokens(design: aq.Design, target: str) -> None:
    """For all n! orders and n places: as many different outputs as the target class needs, for a
    generic network of a universal design; fewer for every network of one with a symmetry."""
    if design.tokens > 4:
        return
    verdict = aq.check(design, norm="lp", target=target)
    n = design.tokens
    orders = list(permutations(range(n)))
    x = TOKENS[torch.tensor(orders)]
    heard = {
        (order if target == "all" else order[: i + 1], i) for order in orders for i in range(n)
    }
    model = random_network(design, 1, depth=2 * n + 2, dim=6, heads=3)
    with torch.no_grad():
        out = model(x[..., None].expand(-1, -1, 6).contiguous()).flatten(0, 1)
    out = out / out.abs().max()
    apart = torch.cdist(out, out, p=torch.inf)
    different = len(torch.unique((apart < 1e-10).long(), dim=0))
    reach = aq.check(design, norm="lp", target=target).reach
    assert reach is not None
    if verdict.universal:
        assert different >= len(heard)
    elif reach.holds and target == "all":
        assert different < n * len(orders)
