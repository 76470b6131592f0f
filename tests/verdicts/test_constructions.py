"""What is proved is carried out, by attention layers of the design itself."""

from __future__ import annotations

from collections.abc import Callable

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

import anyseq as aq
from anyseq.base import generator
from anyseq.verdicts import NORMS
from verdicts.averaging import multisets
from verdicts.designs import designs
from verdicts.gains import OneLayer
from verdicts.gallery import rows
from verdicts.gathering import Gathering
from verdicts.mixing import SUMS
from verdicts.reading import reads

GRID = 32  # cells to an axis in look-ups


def sequences(tokens: int) -> torch.Tensor:
    """(6, n): identical tokens, few values, many."""
    x = torch.rand(6, tokens, generator=generator(tokens), dtype=torch.float64)
    x[0], x[1] = 0.0, 0.5
    x[2, : tokens // 2] = x[2, -1]
    return x


def gathers(design: aq.Design, certificate: aq.Certificate) -> None:
    """Every token ends up with all of x that it needs, and a look-up gives f within its modulus."""
    rounds, layers, n = certificate.rounds, certificate.layers, design.tokens
    if rounds == 0 and isinstance(design.layer_cycle[0].mixer, SUMS):
        rounds = 1  # a feed-forward half comes first
    waits = certificate.phase != rounds % len(design.cycle)
    if waits or (design.depth is not None and design.depth < rounds + layers):
        network: Callable[[torch.Tensor], torch.Tensor] = OneLayer(design)
    else:
        network = Gathering(design, rounds, layers)
    x = sequences(n)
    held = network(x)
    wanted = torch.ones(n, n, dtype=torch.bool)
    wanted = wanted.tril() if certificate.target == "causal" else wanted
    everything = x[:, None, :].expand_as(held)
    assert (held - everything)[:, wanted].abs().max() < 1e-9
    looked_up = _places((held * GRID).round() / GRID, wanted)
    assert (looked_up - _places(everything, wanted)).abs().max() <= 6.0 / (2 * GRID) + 1e-6


def _places(held: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """(B, n, n) what each token holds -> f_i(X) = i + sin(3 Σ_j a_ij x_j) + 3 x_(i+1 mod n)^2/2,
    with Σ_j |a_ij| <= 1, over the tokens that i may depend on: 6-Lipschitz in the max norm."""
    n = held.shape[-1]
    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    held = held.where(wanted, 0.0)
    mixed = (held * torch.cos(2.0 * i - j)).sum(-1) / n
    return i[:, 0] + (3 * mixed).sin() + 1.5 * (held * (j == (i + 1) % n)).sum(-1) ** 2


def averages(design: aq.Design, certificate: aq.Certificate) -> None:
    """Every token learns the multiset of tokens, equal ones too, and f is within its modulus."""
    assert certificate.full_layer is not None
    x = sequences(design.tokens)
    x[3] = x[4].flip(0)
    known = multisets(design, certificate.full_layer, x, GRID)
    own = (x * GRID).round() / GRID
    for function, slope in _EQUIVARIANT:
        wanted = function(x, x[:, None, :].expand_as(known))
        error = (function(own, known) - wanted).abs().max()
        assert error <= slope / (2 * GRID) + 1e-9


def _attention(x: torch.Tensor, all_x: torch.Tensor) -> torch.Tensor:
    return ((x[..., None] * all_x).softmax(-1) * all_x).sum(-1)


_EQUIVARIANT: list[tuple[Callable[[torch.Tensor, torch.Tensor], torch.Tensor], float]] = [
    (lambda x, all_x: all_x.amax(-1) - x, 2.0),
    (lambda x, all_x: (3 * all_x).sin().mean(-1) * x, 4.0),
    (_attention, 3.0),
]
"""(own x, all x in any order) -> f_i, and its slope in the max norm."""

CARRY = {"gather": gathers, "mean": averages, "readout": reads}


@given(
    designs(feedforward=True, final_norm=None),
    st.sampled_from(NORMS),
    st.sampled_from(("all", "causal")),
)
@settings(max_examples=300, deadline=None)
def test_random_designs_gather(design: aq.Design, norm: str, target: str) -> None:
    certificate = aq.check(design, norm=norm, target=target).certificate
    if certificate is not None and certificate.kind == "gather":
        assert certificate.verify()
        gathers(design, certificate)


@given(
    designs(mixers=True, feedforward=True, final_norm=None),
    st.sampled_from(("all", "causal")),
)
@settings(max_examples=200, deadline=None)
def test_random_designs_with_other_mixers_gather(design: aq.Design, target: str) -> None:
    certificate = aq.check(design, target=target).certificate
    if certificate is not None and certificate.kind == "gather":
        assert certificate.verify()
        gathers(design, certificate)


@pytest.mark.parametrize(
    "patterns",
    [(aq.Full(),), (aq.Causal(), aq.PerHead(aq.Window(1), aq.Full()))],
    ids=str,
)
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_random_designs_average(patterns: tuple[aq.Pattern, ...], data: st.DataObject) -> None:
    design = data.draw(designs(feedforward=True, final_norm=None, patterns=patterns))
    certificate = aq.check(design, target="equivariant").certificate
    if certificate is not None and certificate.kind == "mean":
        assert certificate.verify()
        averages(design, certificate)


def test_too_few_layers_do_not_gather() -> None:
    """The construction is no more than the theorem: one round, or one layer less, and it fails."""
    design = aq.Design(7, aq.Window(1), aq.URPE())
    certificate = aq.check(design).certificate
    assert certificate is not None
    rounds, layers = certificate.rounds, certificate.layers
    assert Gathering(design, rounds, layers)(sequences(7)).isfinite().all()
    assert Gathering(design, rounds, layers - 1)(sequences(7)).isnan().any()
    with pytest.raises(AssertionError, match="places"):
        Gathering(design, rounds - 1, layers)(sequences(7))


PROVED = [
    (f"{line} {target}", design, target)
    for line, design, verdicts in rows()
    for target in ("all", "causal", "equivariant")
    if verdicts["sup", target]
    and not (target == "equivariant" and verdicts["sup", "all"])
    and not (target == "equivariant" and design.position == aq.ALiBi())  # test_slopes.py has these
]
"""What the gallery says is universal in sup norm; test_rigid.py has what is so in L^p only."""


@pytest.mark.parametrize(("line", "design", "target"), PROVED, ids=[row[0] for row in PROVED])
def test_the_gallery(line: str, design: aq.Design, target: str) -> None:
    certificate = aq.check(design, target=target).certificate
    assert certificate is not None
    CARRY[certificate.kind](design, certificate)


@pytest.mark.parametrize("tokens", [1, 2, 3])
def test_approximate_builds_what_is_proved(tokens: int) -> None:
    """The whole network, feed-forward layers and all, where `approximate` can build it."""
    design = aq.Design(tokens)
    assert aq.check(design).universal
    sees_all = torch.ones(tokens, tokens, dtype=torch.bool)

    def f(x: torch.Tensor) -> torch.Tensor:
        return _places(x.mT.expand(-1, tokens, -1), sees_all)[..., None]

    built = aq.approximate(f, design, features=1, tol=0.5, lipschitz=6.0)
    assert built.error.upper is not None
    assert built.error.upper <= 0.5
    x = torch.cat([sequences(tokens), torch.rand(500, tokens, generator=generator(1)).double()])
    with torch.no_grad():
        error = (built.model(x[..., None]) - f(x[..., None])).abs().max()
    assert error <= built.error.upper


def test_approximate_builds_an_equivariant_function() -> None:
    design = aq.Design(2, position=aq.NoPosition())
    assert aq.check(design, norm="lp", target="equivariant").universal

    def f(x: torch.Tensor) -> torch.Tensor:
        return x.amax(1, keepdim=True) - x

    built = aq.approximate(f, design, features=1, tol=0.3, norm="lp", lipschitz=2.0)
    assert built.error.upper is not None
    assert built.error.upper <= 0.3
    x = torch.rand(2000, 2, 1, generator=generator(1)).double()
    error = (built(x) - f(x)).square().sum((1, 2)).mean().sqrt()
    assert error <= built.error.upper
