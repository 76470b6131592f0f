"""Method "yun" through sparse patterns, with any map that decides, and with URPE's positions."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anyseq as aq
from anyseq.base import silent
from anyseq.construct.contextual.route import Route
from anyseq.construct.methods.recipe import Construction
from anyseq.construct.methods.yun import yun
from anyseq.construct.methods.yun.yun import YunRecipe
from anyseq.construct.request.ask import Ask
from anyseq.construct.request.error import combine
from anyseq.construct.request.target import Target
from anyseq.errors import CannotApproximate, ConstructionFault
from construct.sparse import PATTERNS, masks

LIPSCHITZ = 3.0


def waves(x: torch.Tensor) -> torch.Tensor:
    """Every token matters to every token, in its own way: |f| <= 0.7, 3-Lipschitz."""
    weight = torch.arange(1.0, x.shape[1] + 1, dtype=torch.float64)[:, None] / x.shape[1]
    return 0.4 * torch.sin(2 * (weight * x).cumsum(1) + x.flip(1)) + 0.3 * x.mean(1, keepdim=True)


def ask(design: aq.Design, **more: Any) -> Ask:
    given: dict[str, Any] = {"features": 1, "out_features": 1, "tol": 1e9, "norm": "lp", "p": 2.0}
    return Ask(design=design, lipschitz=LIPSCHITZ, bound=1.0, **given | more)


def built(recipe: YunRecipe) -> Construction:
    question = recipe.ask
    tokens, features = question.design.tokens, question.features
    return recipe.build(Target(waves, tokens, features, None), silent)


def inputs(recipe: YunRecipe, count: int = 200) -> torch.Tensor:
    shape = (count, recipe.ask.design.tokens, recipe.ask.features)
    return torch.rand(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def check_blocks(recipe: YunRecipe) -> None:
    """The network has the planned sizes, is the look-up, and f at cell centres."""
    made = built(recipe)
    model = made.model()
    assert model.shape == recipe.shape
    assert (model.shape.head_dim, model.shape.hidden) == (1, 4)
    x = inputs(recipe)
    assert made.fused.covers(x).all()
    with torch.no_grad():
        assert (model(x) - made.fused(x)).abs().max() <= 1e-9
    centres = ((x / recipe.step).floor() + 0.5) * recipe.step
    rounding = recipe.pointwise - LIPSCHITZ * recipe.step / 2
    assert (made.fused(x) - waves(centres)).abs().max() <= rounding + 1e-12


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("sizes", [(1, 1, 2), (2, 1, 3), (3, 1, 2), (4, 1, 1), (3, 2, 1)], ids=str)
def test_blocks_are_the_look_up(name: str, sizes: tuple[int, int, int]) -> None:
    tokens, features, log_steps = sizes
    question = ask(aq.Design(tokens, PATTERNS[name]), features=features, out_features=features)
    found = yun.recipe(replace(question, least_log_steps=log_steps))
    assert found.shape.heads == 2
    assert found.shape.width == features + found.carried
    check_blocks(found)
    if tokens > 2 and not found.carried:
        check_blocks(replace(found, carried=True))


@pytest.mark.parametrize(
    "prob_map", ["softmax", "sparsemax", "entmax15", "hardmax", aq.TopK(2)], ids=str
)
@pytest.mark.parametrize("name", ["dense", "star", "strided in turns", "window"])
def test_every_map_that_decides(name: str, prob_map: str | aq.ProbMap) -> None:
    patterns = PATTERNS.get(name, aq.Full())
    check_blocks(yun.recipe(ask(aq.Design(3, patterns, prob_map=prob_map))))


@pytest.mark.parametrize("prob_map", ["sparsemax", "entmax15", "hardmax", aq.TopK(1)], ids=str)
def test_theorem_2_with_every_map_that_decides(prob_map: str | aq.ProbMap) -> None:
    """Equal tokens share the weight, and are erased; the others are as with softmax."""
    results = [
        aq.approximate(
            aq.functions["plus-mean"],
            aq.Design(3, position=aq.NoPosition(), prob_map=chosen),
            features=1,
            tol=1.3,
            norm="lp",
            method="yun",
            lipschitz=2.0,
        )
        for chosen in ("softmax", prob_map)
    ]
    x = torch.rand(300, 3, 1, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    x[:60] = x[:60, :1]
    x[60:120, 0] = x[60:120, 2]
    with torch.no_grad():
        softmax, other = (result.model(x) for result in results)
    assert torch.equal(softmax, other)
    assert (other[:120] == 0).all()
    assert (results[1](x) - other).abs().max() <= 1e-9


@settings(max_examples=40)
@given(masks(4), st.booleans(), st.sampled_from(["softmax", "sparsemax", "entmax15"]))
def test_random_masks(cycle: tuple[torch.Tensor, ...], carried: bool, prob_map: str) -> None:
    design = aq.Design(4, cycle, prob_map=prob_map)
    try:
        found = yun.recipe(ask(design))
    except CannotApproximate:
        assert not all(finding.holds for finding in aq.check(design, norm="lp").fixed_width)
        return
    if carried and found.route is not None:
        found = replace(found, carried=True)
    check_blocks(found)


URPES = [
    aq.URPE(),
    aq.URPE(shared=False),
    aq.URPE(aq.NoPosition()),
    aq.URPE(aq.NoPosition(), shared=False),
    aq.URPE(aq.T5Bias(8)),
    aq.URPE(aq.Shaw(2), shared=False),
]


@pytest.mark.parametrize("position", URPES, ids=str)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 1, 2), (3, 1, 2), (2, 2, 1), (4, 1, 1)], ids=str)
def test_positions_from_the_gain(position: aq.URPE, sizes: tuple[int, int, int]) -> None:
    tokens, features, log_steps = sizes
    question = ask(aq.Design(tokens, position=position), features=features, out_features=features)
    found = yun.recipe(replace(question, least_log_steps=log_steps))
    shape = found.shape
    assert not shape.positions
    assert shape.constant
    assert shape.heads == (3 if position.shared else 2)
    assert "positions come from the gain" in found.notes[0]
    assert ("third head" in found.notes[0]) == position.shared
    check_blocks(found)


@pytest.mark.parametrize("prob_map", ["softmax", "sparsemax", "entmax15", "hardmax"])
@pytest.mark.parametrize("name", ["star", "strided in turns", "fixed", "longformer"])
def test_positions_from_the_gain_through_sparse_patterns(name: str, prob_map: str) -> None:
    design = aq.Design(4, PATTERNS[name], position=aq.URPE(), prob_map=prob_map)
    found = yun.recipe(ask(design))
    check_blocks(found)
    check_blocks(replace(found, carried=True))


def test_urpe_over_absolute_positions_needs_no_gain() -> None:
    for shared in (True, False):
        design = aq.Design(3, aq.Star(1), position=aq.URPE(aq.Absolute(), shared=shared))
        found = yun.recipe(ask(design))
        assert (found.shape.heads, found.shape.width) == (2, 1)
        check_blocks(found)


def test_wrong_gains_are_not_built() -> None:
    found = yun.recipe(ask(aq.Design(3, position=aq.URPE())))
    assert found.gain is not None
    found.gain.gains[4] *= 2
    with pytest.raises(ConstructionFault, match="the gain gives positions"):
        built(found)


def test_a_network_in_the_wrong_phase_of_the_cycle_is_wrong() -> None:
    """Strided patterns in turns: with the patterns swapped, shifts miss the token before."""
    found = yun.recipe(ask(aq.Design(4, aq.Strided(2).split())))
    made = built(found)
    x = inputs(found)
    model = made.model()
    model.design = aq.Design(4, aq.Strided(2).split()[::-1])
    with torch.no_grad():
        assert ((model(x) - made.fused(x)).abs() > 0.01).any()


@pytest.mark.parametrize("carried", [False, True])
def test_one_wrong_number_shows_in_the_blocks(carried: bool) -> None:
    found = replace(yun.recipe(ask(aq.Design(4, aq.Window(1)))), carried=carried)
    made = built(found)
    x = inputs(found)
    for name, row in (("o_weight", 2), ("q_bias", -1), ("o_weight", -1), ("k_weight", -1)):
        model = made.model()
        with torch.no_grad():
            model.get_parameter(name)[row] *= -1
            assert not torch.allclose(model(x), made.fused(x)), (name, row)


def test_the_error_of_a_whole_approximation_is_proved(tmp_path: Path) -> None:
    for design in (
        aq.Design(3, aq.Star(1)),
        aq.Design(2, aq.Window(1), prob_map="sparsemax"),
        aq.Design(2, position=aq.URPE()),
        aq.Design(3, aq.Fixed(2).split(), position=aq.URPE(shared=False)),
    ):
        result = aq.approximate(
            waves, design, features=1, tol=1.2, norm="lp", method="yun", lipschitz=LIPSCHITZ
        )
        assert result.error.upper is not None
        assert result.error.lower <= result.error.upper <= 1.2
        x = torch.rand(50, design.tokens, 1, dtype=torch.float64)
        result.save(tmp_path / design.cycle[0].__class__.__name__)
        again = aq.load(tmp_path / design.cycle[0].__class__.__name__)
        assert torch.equal(again(x), result(x))
        with torch.no_grad():
            assert (again.model(x) - result(x)).abs().max() <= 1e-9


@pytest.mark.parametrize("carried", [False, True])
@pytest.mark.parametrize("position", [aq.Absolute(), aq.URPE()], ids=str)
@pytest.mark.parametrize("prob_map", ["softmax", "sparsemax"])
def test_inputs_on_a_ramp_stay_in_the_range(
    carried: bool, position: aq.Position, prob_map: str
) -> None:
    """The term of the ramps rests on |T| <= reach there, whatever the ids become."""
    for patterns in (aq.Star(1), aq.Strided(2).split()):
        design = aq.Design(4, patterns, position=position, prob_map=prob_map)
        found = replace(yun.recipe(ask(design)), carried=carried)
        made = built(found)
        x = inputs(found)
        token = torch.tensor(found.context.offsets, dtype=torch.float64)[:, None]
        end = ((x + token) / found.step).floor() * found.step + found.step
        share = torch.tensor([1.0, 0.5, 2.0**-20, 1 - 2.0**-20], dtype=torch.float64).repeat(50)
        chosen = inputs(found).flip(0) < 0.5
        chosen[:, 0] = True
        x = torch.where(chosen, end - found.ramp * share[:, None, None] - token, x)
        assert not made.fused.covers(x).all()
        with torch.no_grad():
            assert made.model()(x).abs().max() <= found.reach


def test_the_largest_id_is_carried_where_bits_run_out() -> None:
    design = aq.Design(5, aq.Window(1))
    literal = YunRecipe(ask(design), 2, route=Route.through(design, 2))
    assert literal.id_bits == 73
    found = yun.recipe(ask(design, least_log_steps=2))
    assert found.carried
    assert found.id_bits <= 53
    note = "yun: one extra feature carries the largest id: all-max-shift would take 73 bits"
    assert found.notes == (note.removeprefix("yun: "),)
    error = combine(found.terms, "lp", 2.0)
    plan = aq.plan(design, 1, error, lipschitz=LIPSCHITZ, norm="lp")
    assert note in str(plan)
    assert plan.rows()[0]["notes"] == list(found.notes)
    check_blocks(found)


@pytest.mark.parametrize("position", [aq.Absolute(), aq.URPE(), aq.URPE(shared=False)], ids=str)
def test_dense_attention_takes_a_route_where_bits_run_out(position: aq.Position) -> None:
    design = aq.Design(2, position=position)
    literal = YunRecipe(ask(design), 8)
    assert literal.id_bits == 55
    found = yun.recipe(ask(design, least_log_steps=8))
    assert found.route is not None
    assert not found.carried
    assert found.id_bits <= 53
    assert found.notes[0] == (
        "ids grow along a route, as for sparse patterns: those of Theorem 3 would take 55 bits"
    )
    assert yun.recipe(ask(design, least_log_steps=7)).route is None
    assert yun.recipe(ask(design, least_log_steps=10)).cells > 10**6
    check_blocks(found)


def test_a_single_token_has_no_route() -> None:
    with pytest.raises(CannotApproximate, match=r"take \d+ bits and float64 holds 53"):
        yun.recipe(ask(aq.Design(1), out_features=9, least_log_steps=3))


@pytest.mark.parametrize("tokens", [2, 3, 4])
def test_along_a_route_dense_attention_computes_the_same(tokens: int) -> None:
    design = aq.Design(tokens)
    check_blocks(YunRecipe(ask(design), 3, route=Route.through(design, 2)))


@pytest.mark.parametrize(
    ("design", "reason"),
    [
        (aq.Design(3, ~aq.Blocks(1)), "token 0 does not attend to itself in pattern 0"),
        (aq.Design(3, (aq.Full(), aq.Blocks(2) & ~aq.Blocks(1))), "attend to itself in pattern 1"),
        (aq.Design(3, aq.Causal()), "token 2 never reaches token 0"),
        (aq.Design(4, aq.Global((0,)) | aq.Blocks(1)), r"Hamiltonian path\), and there is none"),
        (
            aq.Design(3, aq.PerHead(aq.Window(1), aq.Full())),
            "in pattern 0 attend to different tokens",
        ),
        (aq.Design(3, aq.Star(1), position=aq.NoPosition()), "dense attention"),
        (aq.Design(3, position=aq.RelativeBias()), "is known for RelativeBias"),
        (aq.Design(3, position=aq.Sinusoidal()), "is known for Sinusoidal"),
        (aq.Design(3, position=aq.URPE(aq.ALiBi())), "base ALiBi does cannot be switched off"),
        (aq.Design(3, position=aq.URPE(aq.Rotary())), "base Rotary"),
        (aq.Design(4, aq.Window(1), position=aq.URPE()), "attend to the same offsets are alike"),
        (aq.Design(3, aq.Star(1), bos=True), "bos=False"),
        (aq.Design(3, aq.Star(1), feedforward=False), "feed-forward"),
        (aq.Design(500, aq.Star(1)), "at least 998 bits and float64 holds 53"),
    ],
    ids=str,
)
def test_refusals_say_why(design: aq.Design, reason: str) -> None:
    with pytest.raises(CannotApproximate, match=reason):
        yun.recipe(ask(design))


def test_bits_are_named_for_both_variants() -> None:
    with pytest.raises(CannotApproximate, match=r"take \d+ or \d+ bits and float64 holds 53"):
        yun.recipe(ask(aq.Design(5, aq.Window(1)), tol=1e-3, p=1.0))


def test_relative_positions_alone_are_refuted_in_sup_norm() -> None:
    with pytest.raises(CannotApproximate, match="not every f can be expressed") as refusal:
        aq.approximate(
            waves, aq.Design(3, position=aq.RelativeBias()), features=1, tol=0.5, method="yun"
        )
    assert "f_i = i" in str(refusal.value)


def test_the_plan_counts_attention_as_the_paper_does() -> None:
    """(n-1)/δ^d selective shifts and s more; with p patterns, up to p layers for each of them."""
    for name, period in (("star", 1), ("strided in turns", 2), ("window, blocks, all", 3)):
        found = yun.recipe(ask(aq.Design(4, PATTERNS[name]), least_log_steps=2))
        assert found.route is not None
        assert found.route.period == period
        spread = found.context.size.attention - 3 * 4
        assert found.shape.attention_layers == 3 * 4 + spread
        assert found.context.size.layers <= period * 3 * 4 + period + spread
