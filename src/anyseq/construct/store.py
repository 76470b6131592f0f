"""Saving and loading an Approximation. Loading never runs code."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from anyseq.base import non_negative, read_folder, write_folder
from anyseq.construct.error import ErrorReport, Term
from anyseq.construct.fused import fused_from
from anyseq.construct.result import Approximation, Facts
from anyseq.construct.stages import check_stages, stages_from
from anyseq.design import Design
from anyseq.errors import FileProblem, InvalidArgument
from anyseq.nn import Stack, StackShape

_FORMAT = "anyseq.approximation"
_VERSION = 1


def describe(result: Approximation) -> dict[str, Any]:
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


def save(result: Approximation, folder: str | Path) -> None:
    """Write the folder, whole or not at all."""
    write_folder(
        folder,
        format=_FORMAT,
        version=_VERSION,
        facts=describe(result) | {"fused": result.fused.facts()},
        groups={
            "weights": {name: t.detach() for name, t in result.model.state_dict().items()},
            "fused": result.fused.tensors(),
        },
    )


def load(folder: str | Path) -> Approximation:
    """The Approximation that `save` wrote; its outputs are the same to the bit."""
    facts, groups = read_folder(folder, format=_FORMAT, version=_VERSION)
    try:
        return _restore(facts, groups)
    except (KeyError, TypeError, ValueError, AttributeError, InvalidArgument) as problem:
        raise FileProblem(
            f"folder={str(folder)!r} does not fit together: {type(problem).__name__}: {problem}; "
            "save the result again"
        ) from problem


def _restore(facts: dict[str, Any], groups: dict[str, dict[str, torch.Tensor]]) -> Approximation:
    design = Design.from_dict(facts["design"])
    shape = StackShape(**facts["shape"])
    model = Stack(design, shape, groups["weights"])
    fused = fused_from(facts["fused"], groups["fused"])
    values = groups["fused"]["values"]
    expected = (facts["cells"], design.tokens, shape.out_features)
    if tuple(values.shape) != expected or values.dtype != torch.float64:
        raise InvalidArgument(
            f"tensor 'values' has shape {tuple(values.shape)} and {values.dtype}, expected "
            f"{expected} and float64"
        )
    _check_types(facts, shape)
    if facts["fused"]["steps"] != 1 / facts["step"]:
        raise InvalidArgument(
            f"fused form of {facts['fused']['steps']} steps, step {facts['step']}"
        )
    if facts["fused"].get("positions", shape.positions) is not shape.positions:
        raise InvalidArgument("fused form and network differ on positions")
    error = dict(facts["error"])
    report = ErrorReport(
        **error
        | {
            "at": torch.tensor(error["at"], dtype=torch.float64),
            "terms": tuple(Term(**term) for term in error["terms"]),
            "assumes": tuple(error["assumes"]),
        }
    )
    names = ("method", "status", "tol", "step", "cells", "id_bits", "checked")
    return Approximation(
        facts=Facts(
            design=design,
            shape=shape,
            stages=check_stages(stages_from(facts.get("stages", ())), shape),
            **{name: facts[name] for name in names},
        ),
        error=report,
        fused=fused,
        _make_model=lambda: model,
        _model=model,
        _fingerprint=model.fingerprint(),
    )


def _check_types(facts: dict[str, Any], shape: StackShape) -> None:
    """Numbers are numbers, texts texts; what is shown and compared later must not fail there."""
    error = facts["error"]
    numbers = [facts["tol"], facts["step"], facts["cells"], error["p"], error["lower"]]
    numbers += [error["at_error"], error["exceptional"], *(t["value"] for t in error["terms"])]
    numbers += [value for value in (error["upper"], error["level"]) if value is not None]
    numbers += [value for key, value in facts["fused"].items() if key in ("ramp", "end", "steps")]
    for number in numbers:
        non_negative("number", number)
    texts = [facts["method"], facts["status"], error["norm"], *error["assumes"]]
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
