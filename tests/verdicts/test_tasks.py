"""What a "no" means in task units, against networks and against counting."""

from __future__ import annotations

from math import log

import pytest
import torch

import anyseq as aq
from verdicts.networks import random_network

WINDOW = aq.Causal() & aq.Window(2)
SAYS: dict[str, tuple[aq.Design, str, list[tuple[str, float | str, float | str]]]] = {
    "far back": (
        aq.Design(12, WINDOW, aq.Absolute(), depth=3),
        "causal",
        [("copy a token from more than 6 places back, one of K equally likely symbols, "
          "independent of the others",
          "1/K", "log K")],
    ),
    "blocks": (
        aq.Design(8, aq.Causal() & aq.Blocks(4)),
        "causal",
        [("copy a token across the border of two blocks of 4, one of K equally likely symbols, "
          "independent of the others",
          "1/K", "log K")],
    ),
    "blocks in turn": (aq.Design(8, (aq.Blocks(4), aq.Full())), "all", []),
    "a later token": (
        aq.Design(4, aq.Causal()),
        "all",
        [("copy token 3 to an earlier place, 0, one of K equally likely symbols, "
          "independent of the others", "1/K", "log K")],
    ),
    "counting": (
        aq.Design(8, aq.Causal(), aq.Rotary()),
        "causal",
        [("count equal tokens, up to 8 of them, all counts being equally likely", 1 / 8, log(8))],
    ),
    "naming": (
        aq.Design(9, position=aq.ALiBi()),
        "all",
        [
            ("say at which of 9 places, all equally likely, a token is, where all are equal",
             1 / 9, log(9))
        ],
    ),
    "a yes": (aq.Design(8), "all", []),
    "equivariant": (aq.Design(8, aq.Blocks(4), aq.NoPosition()), "equivariant", []),
}  # fmt: skip


@pytest.mark.parametrize("name", SAYS)
def test_what_is_said(name: str) -> None:
    design, target, expected = SAYS[name]
    verdict = aq.check(design, target=target)
    assert [(one.task, one.accuracy, one.loss) for one in verdict.tasks] == expected
    assert [one["task"] for one in verdict.to_dict()["tasks"]] == [one[0] for one in expected]
    text = " ".join(str(verdict).split())
    assert all(" ".join(str(task).split()) in text for task in verdict.tasks)


def test_numbers_are_shares() -> None:
    (task,) = aq.check(aq.Design(8, aq.Causal(), aq.Rotary()), target="causal").tasks
    assert str(task).endswith(": accuracy at most 1/8, loss at least 2.079 nats")


def test_networks_have_nothing_to_copy_from() -> None:
    """More than 6 places back nothing of a token is left; 6 places back something is."""
    design, _, _ = SAYS["far back"]
    model = random_network(design, 1, depth=3, dim=8, heads=2)
    x = torch.zeros(2, 12, 8, dtype=torch.float64)
    x[1, 2] = 1.0
    with torch.no_grad():
        one, other = model(x)
    changed = (one != other).any(1)
    assert changed[8]
    assert not changed[9:].any()


@pytest.mark.parametrize("name", ["counting", "naming"])
def test_networks_give_one_answer_to_equal_tokens(name: str) -> None:
    design, _, _ = SAYS[name]
    model = random_network(design, 1, depth=3, dim=8, heads=2)
    with torch.no_grad():
        out = model(torch.full((1, design.tokens, 8), 0.3, dtype=torch.float64))[0]
    assert (out - out[0]).abs().max() < 1e-12
