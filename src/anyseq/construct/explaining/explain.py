"""`result.explain(x)`: what each stage of the network did to one input.

Everything about the layers is read off a run of the real network, half by half: which tokens each
token attended to, which layers changed what a stage is about, and what came out. Beside it stands
what the structured form says of the same x; the largest difference between the two is part of the
explanation. Numbers are in the unit of x throughout.
"""

from __future__ import annotations

import torch

from anyseq.construct.explaining.explanation import Explanation
from anyseq.construct.explaining.steps import Hit, Step
from anyseq.construct.explaining.told import Told, told
from anyseq.construct.network.built import Built
from anyseq.construct.network.stages import ID, Stage
from anyseq.construct.request.error import SUP, norm_name
from anyseq.nn import Attention, BesideSink, Stack
from anyseq.ops import attention
from anyseq.positions import Toeplitz


def explain(result: Built, x: torch.Tensor) -> Explanation:
    """Run the network on x, layer by layer."""
    covered = bool(result.fused.covers(x[None]).all())
    said = told(result.fused, x) if covered else Told()
    with torch.no_grad():
        steps = _steps(result.model, result.facts.stages, x, said)
        y = result.model(x[None])[0]
    known = [step.apart for step in steps if step.apart is not None]
    return Explanation(
        method=result.method,
        layers=result.size.layers,
        x=x,
        y=y,
        covered=covered,
        apart=max(known, default=None),
        bound=_bound(result, x, covered),
        steps=steps,
        nodes=said.nodes,
    )


def _steps(
    model: Stack, stages: tuple[Stage, ...], x: torch.Tensor, said: Told
) -> tuple[Step, ...]:
    trace = model.trace(x[None])
    _, z = next(trace)
    layer, after = next(trace, (len(model), z))
    attends = (model.get_buffer("halves")[:, 0] >= 0).tolist()
    steps: list[Step] = []
    first = 0
    for stage in stages:
        hits: list[Hit] = []
        last_step = steps[-1] if steps else None
        goes_on = last_step is not None and last_step.stage.reading.label == stage.reading.label
        # ids that are stored in another unit from now on are the same ids
        start = reading = last_step.after if last_step and goes_on else _read(stage, model, z)
        ids = None
        if last_step is not None and not goes_on:
            ids = last_step.after[:, 0] if last_step.stage.reading.label == ID else None
        last, entered = -1, None  # what the layer's attention half saw, until it is shown
        while layer < first + stage.layers:
            if layer != last:
                entered = z if attends[layer] else None
            now = _read(stage, model, after)
            if not torch.equal(now, reading):
                looks = {} if entered is None else attention_weights(model, layer, entered)
                hits.append(Hit(layer, reading, now, looks))
                entered = None
            z, reading, last = after, now, layer
            layer, after = next(trace, (len(model), z))
        expected = said.of(stage)
        apart = None if expected is None else _apart(reading, expected)
        notes = said.notes.get(stage.name, ())
        steps.append(Step(stage, first, start, reading, tuple(hits), ids, expected, apart, notes))
        first += stage.layers
    return tuple(steps)


def _read(stage: Stage, model: Stack, z: torch.Tensor) -> torch.Tensor:
    """(1, positions, width) -> (tokens, numbers): BOS is no token."""
    return stage.reading(z[0, int(model.shape.bos) :])


def _apart(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float(((found - expected).abs() / expected.abs().clamp(min=1.0)).max())


def attention_weights(model: Stack, layer: int, z: torch.Tensor) -> dict[int, torch.Tensor]:
    """(positions, positions) for each head of a layer that writes anything: what it multiplies
    values with, at z (1, positions, width). (What a position adds to the values has no weight, and
    a memory is at no position.)"""
    mixer = model[layer].mixer
    if not isinstance(mixer, Attention):
        return {}
    count, scale = z.shape[1], mixer.scale or 1.0

    def split(side: torch.Tensor) -> torch.Tensor:
        heads: torch.Tensor = side.unflatten(2, (mixer.heads, -1))
        return heads.transpose(1, 2)

    q = mixer.position.turn(split(mixer.q_proj(z)), 0)
    k = mixer.position.turn(split(mixer.k_proj(z)), 0)
    gain = Toeplitz(model.get_parameter("gain")) if model.shape.gains else mixer.position.gain()
    each = torch.eye(count, dtype=z.dtype).expand(1, mixer.heads, count, count)
    weights = attention(
        q,
        k,
        each,
        pattern=mixer.pattern,
        bias=mixer.position.bias(q, scale, count, 0),
        gain=gain,
        prob_map=mixer.prob_map if mixer.sink is None else BesideSink(mixer.prob_map, mixer.sink),
        scale=scale,
    )
    writes = mixer.o_proj.weight.unflatten(1, (mixer.heads, mixer.head_dim)).any(2).any(0)
    return {head: weights[0, head] for head in range(mixer.heads) if writes[head]}


def _bound(result: Built, x: torch.Tensor, covered: bool) -> str:
    error = result.error
    if not bool(((x >= 0) & (x <= 1)).all()):
        return "x is outside [0, 1], where nothing is claimed"
    if error.norm == SUP:
        terms = ", ".join(f"{term.name} {term.value:.3g}" for term in error.terms)
        if error.upper is None:
            return "|f - T| has no proven bound"
        return f"|f - T| <= {error.upper:.4g} is proven, here as everywhere ({terms})"
    norm = norm_name(error.norm, error.p)
    mean = f"the bound is on the {norm}, which says nothing about a single x"
    if not error.exceptional:
        return mean
    where = "off the ramps" if covered else "on a ramp, where T may be any value in the range of f"
    return f"{mean}; x is {where}"
