"""Designs that cannot do what is asked: one clear line, with the witness where there is one."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

import anyseq as aq
from anyseq.construct.methods import METHODS
from anyseq.errors import CannotApproximate, InvalidArgument
from anyseq.patterns import Ring
from anyseq.probability import maps

SORT = aq.functions["sort"]
LOWER = torch.ones(5, 5, dtype=torch.bool).tril()


def refused(design: aq.Design, norm: str, method: str = "auto") -> CannotApproximate:
    with pytest.raises(CannotApproximate) as caught:
        aq.approximate(SORT, design, features=1, tol=0.3, norm=norm, lipschitz=1.0, method=method)
    assert "\n" not in caught.value.summary
    return caught.value


@pytest.mark.parametrize(
    ("design", "norm", "witness"),
    [
        (aq.Design(4, patterns=Ring(1), position=aq.NoPosition()), "lp", "W4: f_i = i"),
        (aq.Design(4, patterns=aq.Window(1), position=aq.ALiBi()), "lp", "W3: f_i = i"),
        (aq.Design(4, patterns=aq.Blocks(2)), "sup", "W6: f_0 = x_2"),
        (aq.Design(4, patterns=aq.Blocks(2)), "lp", "W6: f_0 = x_2"),
        (aq.Design(8, patterns=aq.Window(1), depth=2), "sup", "W6: f_0 = x_7"),
        (aq.Design(4, feedforward=False, position=aq.RelativeBias()), "sup", "W1: f_i = i"),
        (aq.Design(2, final_norm="layernorm"), "sup", "W10: f_i = 1"),
    ],
)
def test_a_refuted_design_is_refused_with_the_witness(
    design: aq.Design, norm: str, witness: str
) -> None:
    verdict = aq.check(design, norm=norm)
    assert verdict.universal is False
    reasons = refused(design, norm).reasons
    assert reasons[0].startswith("not every f can be expressed by this design. ")
    assert witness in reasons[0]
    assert str(verdict.witness) in reasons[0]
    assert len(reasons) == 1 + len(METHODS)
    for method in METHODS:
        first, second = refused(design, norm, method).reasons
        assert first == reasons[0]
        assert second.startswith(f"{method}: ")


@pytest.mark.parametrize("position", [aq.RelativeBias(), aq.T5Bias(), aq.ALiBi()])
def test_a_function_of_the_wrong_kind_is_refused_with_the_witness(position: aq.Position) -> None:
    """These designs serve f that commute with permutations, and sort does not."""
    design = aq.Design(4, position=position)
    assert aq.check(design, target="equivariant").universal
    for method in ("auto", *METHODS):
        refusal = refused(design, "sup", method)
        assert "not every f can be expressed by this design" in str(refusal)
        assert refusal.reasons[0] == str(aq.check(design, norm="sup").witness)
        assert "error at least 1.5 (sup norm)" in refusal.reasons[0]


@dataclass(frozen=True)
class Uniform(aq.ProbMap):
    """Equal weights whatever the scores: breaks Assumption 2 of paper B."""

    name: ClassVar[str] = "uniform"

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        seen = scores > -torch.inf
        return seen / seen.sum(-1, keepdim=True).clamp(min=1)


@pytest.fixture(autouse=True, scope="module")
def _forget_the_map() -> Iterator[None]:
    yield
    maps._KINDS.pop("uniform", None)


@pytest.mark.parametrize("norm", ["sup", "lp"])
def test_a_map_that_never_concentrates_is_refused_by_name(norm: str) -> None:
    refusal = refused(aq.Design(2, prob_map=Uniform()), norm)
    assert any("not for uniform" in reason for reason in refusal.reasons)


@pytest.mark.parametrize(
    ("design", "message"),
    [
        (aq.Design(4, patterns=aq.FromMask(LOWER)), "is for 5 positions; the design has 4"),
        (
            aq.Design(4, patterns=(aq.Window(1), aq.FromMask(LOWER) | aq.Window(1))),
            "is for 5 positions; the design has 4",
        ),
        (
            aq.Design(4, patterns=aq.PerHead(aq.Full(), aq.FromMask(LOWER))),
            "is for 5 positions; the design has 4",
        ),
        (aq.Design(5, patterns=aq.FromMask(LOWER), bos=True), "the design has 6, with BOS"),
        (aq.Design(4, patterns=aq.Documents((2, 3))), "is for 5 positions; the design has 4"),
    ],
)
def test_a_pattern_of_another_length_is_named(design: aq.Design, message: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^patterns: ") as caught:
        aq.approximate(SORT, design, features=1, tol=0.3, lipschitz=1.0)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(InvalidArgument) as planned:
        aq.plan(design, 1, 0.3, lipschitz=1.0)
    assert str(planned.value) == str(caught.value)


def test_biases_over_arrays_are_refused_by_name() -> None:
    for position in (aq.GridBias((2, 2)), aq.URPE(aq.GridBias((2, 2)))):
        for norm in ("sup", "lp"):
            found = refused(aq.Design(4, position=position), norm)
            refusal = "position=GridBias(shape=(2, 2)): constructions do not support biases"
            assert refusal in str(found)
        with pytest.raises(CannotApproximate, match="constructions do not support biases"):
            aq.plan(aq.Design(4, position=position), 1, 0.3, lipschitz=1.0)


@pytest.mark.parametrize(
    "position",
    [aq.Rotary(share=0.5), aq.URPE(aq.Rotary(scaling=aq.positions.YaRN(4.0)))],
    ids=["share", "scaling"],
)
def test_rotary_positions_of_trained_models_are_refused(position: aq.Position) -> None:
    for norm in ("sup", "lp"):
        found = refused(aq.Design(3, position=position), norm)
        assert "turn all features, without scaling, Rotary(10000.0)" in str(found)
