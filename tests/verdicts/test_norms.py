"""Norms are no obstacle: what a network without norms does, one with norms does as well as one
likes (docs/theorems.md, "Norms")."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import anyseq as aq
from anyseq.base import generator
from anyseq.verdicts import NORMS, TARGETS
from verdicts.networks import random_network
from verdicts.norms import Written

SIZES = (2.0**6, 2.0**8, 2.0**10)

DESIGNS = {
    "full": aq.Design(5, position=aq.RelativeBias()),
    "causal, rotary": aq.Design(5, aq.Causal(), aq.Rotary()),
    "causal, BOS": aq.Design(5, aq.Causal(), aq.NoPosition(), bos=True),
    "sparsemax": aq.Design(5, aq.Causal(), aq.RelativeBias(), "sparsemax", bos=True),
    "the first sees nothing": aq.Design(5, aq.Causal() & ~aq.Window(0), aq.RelativeBias()),
    "by turns": aq.Design(5, (aq.Window(1), aq.Full()), aq.Rotary(), "sparsemax"),
}


def mixing(mixer: aq.design.Mixer) -> aq.Design:
    """Attention by turns with another mixer."""
    layers = [aq.Layer(mixer=mixer), aq.Layer(aq.Causal(), aq.RelativeBias())]
    return aq.Design(5, layers=layers, position=aq.NoPosition())


DESIGNS |= {
    str(mixer): mixing(mixer)
    for mixer in (aq.Convolution(3), aq.Recurrence(), aq.LinearAttention(), aq.Average())
}


def test_no_norm_changes_the_verdict() -> None:
    for design in DESIGNS.values():
        for norm, target in ((norm, target) for norm in NORMS for target in TARGETS):
            plain = aq.check(design, norm=norm, target=target).universal
            for where in ("pre", "post", "sandwich"):
                normed = replace(design, block_norm=where, head=True)
                assert aq.check(normed, norm=norm, target=target).universal is plain


def network(design: aq.Design) -> aq.nn.Transformer:
    return random_network(design, 0, depth=3, dim=4, heads=2)


def sequences(design: aq.Design) -> torch.Tensor:
    """(8, n, 4), one of identical tokens among them."""
    x = torch.rand(8, design.tokens, 4, generator=generator(0), dtype=torch.float64)
    x[0] = x[0, :1]
    return x


def deviations(
    plain: aq.nn.Transformer, where: str, kind: str, final_norm: str | None = None
) -> list[float]:
    """How far the network with norms is from the other, for each size of the constant, in units of
    its largest output."""
    x = sequences(plain.design)
    with torch.no_grad():
        wanted = plain(x)
    written = [Written(plain, where, kind, size, final_norm) for size in SIZES]
    return [float((one(x) - wanted).abs().max() / wanted.abs().max()) for one in written]


@pytest.mark.parametrize("kind", ["rmsnorm", "layernorm"])
@pytest.mark.parametrize("where", ["pre", "post", "sandwich"])
@pytest.mark.parametrize("name", DESIGNS)
def test_the_deviation_falls_with_the_square_of_the_constant(
    name: str, where: str, kind: str
) -> None:
    first, second, third = deviations(network(DESIGNS[name]), where, kind)
    assert 0 < first < 0.5
    assert 10 < first / second < 25
    assert 10 < second / third < 25


@pytest.mark.parametrize("final_norm", ["rmsnorm", "layernorm"])
def test_a_last_norm_is_undone_by_the_head(final_norm: str) -> None:
    found = deviations(network(DESIGNS["full"]), "pre", final_norm, final_norm)
    assert found[0] < 0.5
    assert found[0] > 10 * found[1] > 100 * found[2]


def test_a_sum_of_weights_that_depend_on_the_place_is_divided_by() -> None:
    """Raw linear attention converges without norms after its halves, and not with them: of these
    `check` says nothing."""
    raw = mixing(aq.LinearAttention(normalised=False))
    raw = raw.with_layers([replace(raw.layer_cycle[0], pattern=aq.Causal()), raw.layer_cycle[1]])
    plain = network(raw)
    first, second, third = deviations(plain, "pre", "rmsnorm")
    assert first > 10 * second > 100 * third
    assert min(deviations(plain, "sandwich", "rmsnorm")) > 0.1
    assert aq.check(replace(raw, block_norm="pre"), target="causal").universal
    assert aq.check(replace(raw, block_norm="sandwich"), target="causal").universal is None


@pytest.mark.parametrize("where", ["pre", "post", "sandwich"])
def test_without_the_constant_it_does_not_converge(where: str) -> None:
    """Planted: norms whose scales count on a constant that no token holds."""
    plain = network(DESIGNS["full"])
    x = sequences(plain.design)
    with torch.no_grad():
        wanted = plain(x)
        for size in SIZES:
            written = Written(plain, where, "rmsnorm", size)
            held = x @ written.inside.T + written.beside
            out = written.network()(held)[..., : plain.dim]
            assert (out - wanted).abs().max() > 0.5 * wanted.abs().max()


def test_halves_must_write_the_constant_everywhere_before_their_norm() -> None:
    """Planted: the head that writes it attends to nothing in some rows, others do not."""
    past = aq.PerHead(aq.Full(), aq.Full(), aq.Causal() & ~aq.Window(0))
    plain = network(DESIGNS["full"])
    x = sequences(plain.design)
    with torch.no_grad():
        wanted = plain(x)
    for size in SIZES:
        written = Written(plain, "sandwich", "rmsnorm", size)
        wide = written.network()
        holed = aq.nn.Transformer(
            replace(wide.design, patterns=past), wide.dim, len(wide.blocks), 3, norms="rmsnorm",
            hidden=plain.settings["hidden"], head_dim=2,
            dtype=torch.float64,
        )  # fmt: skip
        holed.load_state_dict(wide.state_dict())
        held = x @ written.inside.T + size * written.beside
        with torch.no_grad():
            apart = (holed.eval()(held)[..., : plain.dim] - wanted).abs()
        assert apart[:, 0].max() > 0.5 * wanted.abs().max()


@pytest.mark.parametrize("final_norm", [None, "learned-rmsnorm", "learned-layernorm"])
@pytest.mark.parametrize("where", [None, "pre", "post", "sandwich"])
def test_a_last_norm_without_a_head(where: str | None, final_norm: str | None) -> None:
    """A layer norm leaves all outputs of a token on a hyperplane; an RMS norm after it divides them
    by one number, and does not bring back what is lost. Alone it loses nothing."""
    design = aq.Design(4, block_norm=where, final_norm=final_norm)
    lost = where == "post" or final_norm == "learned-layernorm"
    assert aq.check(design).universal is (None if lost else True)
    assert aq.check(replace(design, head=True)).universal
    if where == "post" and final_norm == "learned-rmsnorm":
        model = aq.nn.Transformer(design, 3, 2, norms="layernorm", dtype=torch.float64)
        x = torch.randn(64, 4, 3, generator=generator(0), dtype=torch.float64)
        # scales are 1 and biases 0 at first, so that features sum to 0 still
        assert model(x).sum(-1).abs().max() < 1e-12
