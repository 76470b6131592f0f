"""A constructed network as data for the page: all that its blocks compute with, and what they do.

The page runs the same blocks in float64. Tensors are sparse, {"shape", "at", "is"}: the flat places
of what is not 0, and the numbers there, as Python writes them, which reads back to the same bits.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import torch

from anyseq.construct import Approximation
from anyseq.construct.request.error import SUP, norm_name
from anyseq.design import Design
from anyseq.errors import InvalidArgument
from anyseq.nn import AttentionPosition, Stack, inside_attention
from anyseq.nn.attention import Attention
from anyseq.patterns import Pattern, pattern_text
from anyseq.play.formula import Formula
from anyseq.positions import Rotary, Shaw, Toeplitz, position_text
from anyseq.probability import Softmax

FORMAT, VERSION = "anyseq network", 1
MOST_NUMBERS = 150_000
"""Numbers that are not 0: some megabytes, and some milliseconds a run."""


def described(result: Approximation, name: str, formula: Formula) -> dict[str, Any]:
    """The network of `formula`, JSON-ready; an InvalidArgument if the page cannot run it."""
    _check(result)
    model, shape, error = result.model, result.size, result.error
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": name,
        "formula": formula.text,
        "target": formula.tree,
        "design": design_text(result.design),
        "method": result.method,
        "status": result.status,
        "tol": result.facts.tol,
        "upper": error.upper,
        "lower": error.lower,
        "assumes": list(error.assumes),
        "at": error.at.flatten().tolist(),
        "tokens": shape.tokens,
        "in_features": shape.in_features,
        "out_features": shape.out_features,
        "width": shape.width,
        "heads": shape.heads,
        "head_dim": shape.head_dim,
        "hidden": shape.hidden,
        "parameters": shape.parameters,
        "bos": bool(shape.bos),
        "registers": _registers(model),
        "stages": [asdict(stage) for stage in result.facts.stages],
        "masks": [_mask(pattern, result.design.size, shape.heads) for pattern in _cycle(result)],
        "begin": _begin(model),
        "layers": [_layer(model, layer) for layer in range(shape.layers)],
    }


def script(network: dict[str, Any]) -> str:
    """A classic script that adds the network to window.Networks; a line for each layer."""
    layers = ",\n".join(json.dumps(layer, allow_nan=False) for layer in network["layers"])
    rest = {name: value for name, value in network.items() if name != "layers"}
    facts = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(value, allow_nan=False)}" for name, value in rest.items()
    )
    text = f'{{\n{facts},\n"layers": [\n{layers}\n]}}'
    return f'"use strict";\n(window.Networks ??= []).push({text});\n'


def design_text(design: Design) -> str:
    """Such as "3 tokens, window(1) attention, absolute positions"."""
    patterns = " then ".join(pattern_text(pattern) for pattern in design.cycle)
    name = position_text(design.position)
    position = "no positions" if name == "none" else f"{name} positions"
    more = ", BOS" * design.bos + ", sinks" * bool(design.sinks)
    return f"{design.tokens} tokens, {patterns} attention, {position}{more}"


def _check(result: Approximation) -> None:
    design, error = result.design, result.error
    if error.norm != SUP:
        raise InvalidArgument(
            f"norm={error.norm!r}: an error in {norm_name(error.norm, error.p)} says nothing of "
            "the input on the page; expected norm='sup'"
        )
    if not isinstance(design.probability, Softmax):
        raise InvalidArgument(
            f"prob_map={design.probability!r}: the page runs softmax attention; expected softmax"
        )
    if isinstance(inside_attention(design.position)[0], Shaw):
        raise InvalidArgument(
            "position='shaw': the page does not run networks with Shaw's vectors; expected another"
        )
    numbers = sum(int(weights.count_nonzero()) for weights in result.model.parameters())
    if numbers > MOST_NUMBERS:
        raise InvalidArgument(
            f"the network has {result.size.layers:,} layers with {numbers:,} numbers that are not "
            f"0; the page takes {MOST_NUMBERS:,}: ask for a larger tol, or for fewer tokens"
        )


def _cycle(result: Approximation) -> tuple[Pattern, ...]:
    return result.design.cycle


def _mask(pattern: Pattern, size: int, heads: int) -> list[list[str]]:
    """For each head the rows, "110": which positions each attends to; one for all heads if they
    are alike."""
    parts = pattern.heads()
    masks = [parts[head % len(parts)].mask(size) for head in range(min(heads, len(parts)))]
    return [["".join("01"[int(entry)] for entry in row) for row in mask] for mask in masks]


def _begin(model: Stack) -> dict[str, Any]:
    """What is added before the first layer: constant and bos (width,), then position and waves
    (positions, width), in this order."""
    shape = model.shape
    nothing = torch.zeros(1, shape.tokens, shape.in_features, dtype=torch.float64)
    parts = {
        name: model.get_parameter(name).detach()
        for name, there in (
            ("constant", shape.constant),
            ("bos", shape.bos),
            ("position", shape.positions),
        )
        if there
    }
    with torch.no_grad():
        _, begun = next(model.trace(nothing))
    waves = _waves(parts, begun[0], shape.width)
    if bool(waves.any()):
        parts["waves"] = waves
    return {name: _sparse(part) for name, part in parts.items()}


def _waves(parts: dict[str, torch.Tensor], begun: torch.Tensor, width: int) -> torch.Tensor:
    """What the first layer gets beyond these parts, if x is 0; nothing but waves, which come alone
    or with a constant or BOS that is 0 where they are not."""
    rest = begun.clone()
    tokens = len(begun) - ("bos" in parts)
    if "constant" in parts:
        rest[-tokens:] -= parts["constant"]
    if "bos" in parts:
        rest[0] -= parts["bos"]
    return rest - parts["position"] if "position" in parts else rest


def _layer(model: Stack, index: int) -> dict[str, Any]:
    block = model[index]
    layer: dict[str, Any] = {}
    if isinstance(block.mixer, Attention):
        layer["attention"] = {
            "mask": index % len(model.design.cycle),
            **_attention(block.mixer, model),
        }
    if block.feedforward is not None:
        up, down = block.feedforward.up_proj, block.feedforward.down_proj
        layer["feedforward"] = {
            "up": _sparse(up.weight),
            "up_bias": _sparse(up.bias),
            "down": _sparse(down.weight),
            "down_bias": _sparse(down.bias),
        }
    return layer


def _attention(mixer: Attention, model: Stack) -> dict[str, Any]:
    parts = {
        "q": mixer.q_proj.weight,
        "q_bias": mixer.q_proj.bias,
        "k": mixer.k_proj.weight,
        "v": mixer.v_proj.weight,
        "o": mixer.o_proj.weight,
    }
    if mixer.sink is not None:
        parts["sink"] = mixer.sink
    count = model.shape.tokens + model.shape.bos
    shared = Toeplitz(model.get_parameter("gain")) if model.shape.gains else None
    queries = torch.zeros(1, mixer.heads, count, mixer.head_dim, dtype=torch.float64)
    terms = {
        "bias": mixer.position.bias(queries, 1.0, count, 0),
        "gain": shared or mixer.position.gain(),
    }
    for name, term in terms.items():
        if term is not None:
            dense = term if isinstance(term, torch.Tensor) else term.dense(count, count)
            parts[name] = dense.reshape(mixer.heads, count, count)
    if isinstance(inside_attention(model.design.position)[0], Rotary):
        parts["turn"] = _turn(mixer.position, mixer.head_dim, count)
    return {name: _sparse(part) for name, part in parts.items()}


def _turn(position: AttentionPosition, size: int, count: int) -> torch.Tensor:
    """(positions, size, size): the matrices that turn queries and keys."""
    each = torch.eye(size, dtype=torch.float64)[:, None, None].expand(size, 1, count, size)
    return position.turn(each, 0)[:, 0].permute(1, 2, 0)


def _sparse(tensor: torch.Tensor) -> dict[str, Any]:
    flat = tensor.detach().flatten()
    at = flat.nonzero().flatten()
    return {"shape": list(tensor.shape), "at": at.tolist(), "is": flat[at].tolist()}


def _registers(model: Stack) -> dict[int, str]:
    """Features that say where a token is, as they are added before the first layer."""
    if not model.shape.positions:
        return {}
    places = model.get_parameter("position").detach()
    named = {}
    for at in places.any(0).nonzero().flatten().tolist():
        rows = places[:, at].nonzero().flatten().tolist()
        token = rows[0] - model.shape.bos
        one = "is BOS" if token < 0 else f"is token {token}"
        named[at] = one if len(rows) == 1 else "position"
    return named
