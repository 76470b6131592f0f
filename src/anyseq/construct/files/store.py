"""A result in a folder. Reading it never runs code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from anyseq.base import non_negative, one_of, read_folder, write_folder
from anyseq.construct.network.built import Built, Facts
from anyseq.construct.network.memory import restore
from anyseq.construct.network.stages import check_stages, stages_from
from anyseq.construct.request.error import NORMS, ErrorReport, Term
from anyseq.construct.request.needs import layers_alike, plain_attention
from anyseq.construct.tables.fused import Fused, fused_from
from anyseq.construct.tables.tensors import check_tensor
from anyseq.design import Design
from anyseq.errors import CannotApproximate, FileProblem, InvalidArgument
from anyseq.nn import Stack, StackShape
from anyseq.positions import NoPosition

_FORMAT = "anyseq.approximation"
_VERSION = 1

Made = TypeVar("Made")


def describe(result: Built) -> dict[str, Any]:
    """Everything but the tensors, JSON-ready."""
    facts, error = result.facts, result.error
    return {
        **asdict(facts),
        "design": facts.design.to_dict(),
        "checked": dict(facts.checked),
        "shape": asdict(facts.shape),
        "parameters": facts.shape.parameters,
        "error": {**asdict(error), "at": error.at.tolist()},
    }


def save(result: Built, certificate: dict[str, Any] | None, folder: str | Path) -> None:
    """Write the folder, whole or not at all."""
    write_folder(
        folder,
        format=_FORMAT,
        version=_VERSION,
        facts=describe(result) | {"fused": result.fused.facts(), "certificate": certificate},
        groups={
            "weights": {name: t.detach() for name, t in result.model.state_dict().items()},
            "fused": result.fused.tensors(),
        },
    )


@dataclass(frozen=True)
class Saved:
    """What a folder holds. certificate: its facts, if there is one."""

    facts: Facts
    error: ErrorReport
    fused: Fused
    model: Stack
    certificate: dict[str, Any] | None


def read(folder: str | Path, make: Callable[[Saved], Made]) -> Made:
    """What `make` makes of a folder that `save` wrote; errors say what does not fit together."""
    facts, groups = read_folder(folder, format=_FORMAT, version=_VERSION)
    try:
        return make(_restore(facts, groups))
    except (
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
        RuntimeError,
        AttributeError,
        InvalidArgument,
        CannotApproximate,
    ) as problem:
        raise FileProblem(
            f"folder={str(folder)!r} does not fit together: {type(problem).__name__}: {problem}; "
            "save the result again"
        ) from problem


def _restore(facts: dict[str, Any], groups: dict[str, dict[str, torch.Tensor]]) -> Saved:
    design = Design.from_dict(facts["design"])
    layers_alike(design)
    model = restore(design, facts["shape"], groups["weights"])
    shape = model.shape
    fused = fused_from(facts["fused"], groups["fused"])
    if design.tokens != shape.tokens:
        raise InvalidArgument(f"a design of {design.tokens} tokens, a network of {shape.tokens}")
    if facts["parameters"] != shape.parameters:
        raise InvalidArgument(
            f"{facts['parameters']} parameters said, a network of {shape.parameters}"
        )
    if facts["cells"]:
        _check_table(facts, groups["fused"]["values"], design, shape)
    else:
        _check_net(fused, model)
    _check_types(facts, shape)
    error = dict(facts["error"])
    report = ErrorReport(
        **error
        | {
            "at": torch.tensor(error["at"], dtype=torch.float64),
            "terms": tuple(Term(**term) for term in error["terms"]),
            "assumes": tuple(error["assumes"]),
        }
    )
    names = ("method", "status", "tol", "step", "cells", "checked")
    if (facts["certificate"] is None) != (report.upper is None):
        raise InvalidArgument("a proved error without a certificate, or one without the other")
    return Saved(
        facts=Facts(
            design=design,
            shape=shape,
            stages=check_stages(stages_from(facts.get("stages", ())), shape),
            **{name: facts[name] for name in names},
        ),
        error=report,
        fused=fused,
        model=model,
        certificate=facts["certificate"],
    )


def _check_table(
    facts: dict[str, Any], values: torch.Tensor, design: Design, shape: StackShape
) -> None:
    """The table of a look-up form is as large as the facts say."""
    check_tensor("values", values, (facts["cells"], shape.tokens, shape.out_features))
    if facts["fused"]["steps"] != 1 / facts["step"]:
        raise InvalidArgument(
            f"fused form of {facts['fused']['steps']} steps, step {facts['step']}"
        )
    # a design without positions may find them out, unless all tokens see all alike
    positions = not isinstance(design.position, NoPosition)
    told = facts["fused"].get("positions", positions)
    if told is not positions and (positions or plain_attention(design)):
        raise InvalidArgument("fused form and design differ on positions")


def _check_net(fused: Fused, model: Stack) -> None:
    """A fused form that holds no values holds weights: it must compute what the network does."""
    shape = model.shape
    x = torch.full((1, shape.tokens, shape.in_features), 0.5, dtype=torch.float64)
    with torch.no_grad():
        wanted = model(x)
        found = fused(x)
    if found.shape != wanted.shape or not torch.allclose(found, wanted, rtol=1e-9, atol=1e-9):
        raise InvalidArgument("fused form and network differ")


def _check_types(facts: dict[str, Any], shape: StackShape) -> None:
    """Numbers are numbers, texts texts; what is shown and compared later must not fail there."""
    error = facts["error"]
    numbers = [facts["tol"], facts["step"], facts["cells"], error["p"], error["lower"]]
    numbers += [error["at_error"], error["exceptional"], *(t["value"] for t in error["terms"])]
    numbers += [value for value in (error["upper"], error["level"]) if value is not None]
    numbers += [
        value for key, value in facts["fused"].items() if key in ("ramp", "end", "steps", "bound")
    ]
    one_of("norm", error["norm"], NORMS)
    for number in numbers:
        non_negative("number", number)
    texts = [facts["method"], facts["status"], *error["assumes"]]
    texts += [text for term in error["terms"] for text in (term["name"], term["on"], term["why"])]
    texts += [text for item in facts["checked"].items() for text in item]
    stages = facts.get("stages", ())
    texts += [stage[name] for stage in stages for name in ("name", "does")]
    texts += [stage["reading"]["label"] for stage in stages]
    for text in texts:
        if not isinstance(text, str):
            raise InvalidArgument(f"{text!r}: expected a text")
    at = torch.tensor(error["at"])
    if tuple(at.shape) != (shape.tokens, shape.in_features):
        raise InvalidArgument(f"worst input of shape {tuple(at.shape)}")
