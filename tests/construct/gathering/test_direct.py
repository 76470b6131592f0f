"""Gathering in as few layers as `check` asks for."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given, settings

import anyseq as aq
from anyseq.base import UNIT_ROUNDOFF, generator, uniform
from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.construct.gathering import Direct, base_of, gather_directly
from anyseq.construct.gathering.by_gains import sees_wanted
from anyseq.construct.gathering.known import WORST
from anyseq.errors import CannotApproximate
from anyseq.nn import Layers, Stack
from construct.gathering.designs import designs, gathers
from verdicts.gallery import rows


def needed(design: aq.Design, wanted: str) -> int:
    """The least depth that `check` proves to be enough."""
    free = replace(design, depth=None)
    certificate = aq.check(free, target=wanted).certificate
    assert certificate is not None
    depth = max(1, certificate.rounds + certificate.layers)
    return 1 if aq.check(replace(free, depth=1), target=wanted).universal else depth


def states(direct: Direct, design: aq.Design, x: torch.Tensor) -> torch.Tensor:
    """(batch, tokens, width) after the last attention half."""
    front, width = direct.gathering, len(direct.readers[0].others)
    runs = [*front.runs, Layers(feedforward=blank_feed_forward(1, 1, width))]
    model = Stack.of(design, runs, in_features=x.shape[2], out_features=width, **front.vectors)
    with torch.no_grad():
        z: torch.Tensor = model(x)
    return z


def most_off(direct: Direct, design: aq.Design, wanted: str, features: int) -> float:
    """Nothing, where places are one-hot. Forms of waves that are further off than WORST are
    refused. Those of gains, n of them, are the output weights of one layer: whatever they read is
    rounded, and so are they, no more than that again."""
    if sees_wanted(design, wanted):
        (run,) = direct.gathering.runs
        assert run.attention is not None
        o_weight = run.attention.o_weight[0]
        forms = o_weight[features + 2 : features + 2 + design.tokens]
        rounded = (2 * len(o_weight) + 64) * UNIT_ROUNDOFF * float(forms.abs().sum(1).max())
        return 2 * design.tokens * 2 * rounded
    return WORST if isinstance(base_of(design.position), aq.Sinusoidal) else 0.0


def check_gathered(design: aq.Design, wanted: str, features: int = 1) -> None:
    direct = gather_directly(design, features, features, wanted)
    assert direct.gathering.layers <= needed(design, wanted)
    assert direct.gathering.runs[-1].feedforward is None
    assert direct.off <= most_off(direct, design, wanted, features)
    x = uniform(20, design.tokens, features, rng=generator(0))
    x[0], x[1] = 0.0, 1.0
    z = states(direct, design, x)
    for token, reader in enumerate(direct.readers):
        for axis, slot in enumerate(reader.slots):
            if axis < (token + 1) * features or wanted == "all":
                assert slot is not None
                feature, weight, shift = slot
                read = weight * z[:, token, feature] + shift
                assert float((read - x.flatten(1)[:, axis]).abs().max()) <= direct.off
        told = z @ reader.others
        told[:, token] += 1.0
        assert float((told - 1).abs().max()) <= direct.off


@given(designs(most=4))
@settings(max_examples=40, deadline=None)
def test_every_token_reads_what_it_wants(design: aq.Design) -> None:
    wanted = gathers(design)
    assume(wanted is not None)
    check_gathered(design, wanted or "")


@pytest.mark.parametrize("line", [line for line, design, _ in rows() if design.layers is None])
def test_the_gallery(line: str) -> None:
    design = replace(next(row[1] for row in rows() if row[0] == line), depth=None)
    wanted = gathers(design)
    if wanted is not None and design.tokens <= 8:
        check_gathered(design, wanted)


@pytest.mark.parametrize(
    "position",
    [aq.Absolute(), aq.Sinusoidal(), aq.URPE(), aq.URPE(aq.ALiBi()), aq.Shaw(1)],
    ids=str,
)
def test_several_features(position: aq.Position) -> None:
    design = aq.Design(3, aq.PerHead(aq.Window(1), aq.Global((0,))), position)
    check_gathered(design, "all", features=3)


def test_a_first_token_that_sees_nothing() -> None:
    mask = torch.tensor([[False, False], [True, True]])
    check_gathered(aq.Design(2, mask, aq.URPE(), "sparsemax"), "causal", features=2)


def test_waves_that_are_too_slow_are_refused() -> None:
    with pytest.raises(CannotApproximate, match="do not tell 3 positions apart"):
        gather_directly(aq.Design(3, position=aq.Sinusoidal(1e300)), 2, 2, "all")
