"""What a probe contributes to a question: findings, a witness on that very model, and whether the
model behaves as its description says."""

from __future__ import annotations

import numpy as np

from anyseq.design import Design
from anyseq.graph import refine
from anyseq.models import Function, Probe
from anyseq.patterns import Full
from anyseq.positions import NoPosition
from anyseq.verdicts import witnesses
from anyseq.verdicts.verdict import Finding
from anyseq.verdicts.witness import Witness


def findings(probe: Probe, norm: str, target: str, tokens: int) -> tuple[Finding, ...]:
    """The probes that bear on the question, in words; tokens: the length that is asked about, which
    may be too long to be run. Whether identical tokens are told apart
    matters in sup norm; neither that nor a symmetry keeps a model from equivariant functions."""
    basis = f"{probe.trials} sets of weights" if probe.trials > 1 else "its own weights"
    if probe.tokens != tokens:
        basis += f", {probe.tokens} tokens"
    found = []
    if norm == "sup" and target != "equivariant":
        count = len(set(probe.classes))
        equal = {1: "all outputs are equal", probe.tokens: "all outputs differ"}
        saw = equal.get(count, f"outputs fall into {count} classes")
        if probe.tokens == 1:
            saw = "there is only one token"
        found.append(Finding("probe: identical tokens", count == probe.tokens, saw, basis))
    if target != "equivariant":
        saw = "no symmetry seen"
        if probe.equivariant:
            saw = "commutes with " + ", ".join(probe.equivariant)
        found.append(Finding("probe: symmetry", not probe.equivariant, saw, basis))
    missing = _independent(probe, target) is not None
    found.append(Finding("probe: dependence", not missing, _dependence(probe, target), basis))
    return tuple(found)


def _dependence(probe: Probe, target: str) -> str:
    """Which outputs depend on which tokens, among those that may in the target class."""
    pair, early = _independent(probe, target), _independent(probe, "causal")
    if pair is not None and is_causal(probe) and target != "causal":
        also = "" if early is None else f", nor output {early[0]} on token {early[1]}"
        return f"no output depends on a later token{also}"
    if pair is not None:
        return f"output {pair[0]} does not depend on token {pair[1]}"
    if target != "causal":
        return "every output depends on every token"
    later = ", and on no later one" * is_causal(probe)
    return f"every output depends on its own token and on every earlier one{later}"


def obstruction(probe: Probe, norm: str, target: str) -> Witness | None:
    """A function of the target class that no model with this behaviour can compute."""
    pair = _independent(probe, target)
    if pair is not None:
        k, j = pair
        name = "W5" if j > k and is_causal(probe) else "W6"
        return witnesses.unreached(probe.tokens, k, j, norm, target, name)
    if target == "equivariant":
        return None  # f_i = i is no equivariant function
    if norm == "sup":
        together = [(other - i, i, other) for other, i in enumerate(probe.classes) if other > i]
        if not together:
            return None
        _, i, other = max(together)
        return witnesses.stuck(probe.tokens, i, other)
    if not probe.equivariant:
        return None
    kind = probe.equivariant[0]
    places = np.arange(probe.tokens)
    image = places[::-1] if kind == "reversal" else np.roll(places, 1)
    return witnesses.symmetric(image.tolist(), kind)


def replayed(witness: Witness, function: Function, rounding: float) -> tuple[float, bool]:
    """The error of the model on the witness, and whether it keeps to the bound, up to rounding:
    a change of outputs by r moves a sup error by r, and Σ_i |f_i - T_i|² = E by 2 r √(nE) + n r².
    """
    error = witness.replay(function)
    slack = rounding
    if witness.norm == "lp":
        tokens = witness.sequences.shape[1]
        slack = 2 * rounding * (tokens * witness.bound) ** 0.5 + tokens * rounding**2
    return error, error >= witness.bound - slack


def disagreement(design: Design, probe: Probe) -> str | None:
    """What the model was seen to do that no network of the design does."""
    beyond = np.argwhere(probe.depends & ~_reached(design))
    if len(beyond):
        k, j = beyond[0]
        return f"output {k} depends on token {j}, which its description hides from it"
    limit = refine(design).limit
    for other, i in enumerate(probe.classes):
        for earlier in range(other):
            if limit[earlier] == limit[other] and probe.classes[earlier] != i:
                return (
                    f"identical tokens at {earlier} and {other} are told apart, which its "
                    "description does not explain"
                )
    if _commutes_with_all(design) and probe.tokens > 1 and "permutations" not in probe.equivariant:
        return "it does not commute with permutations, which its description does not explain"
    return None


def _commutes_with_all(design: Design) -> bool:
    """Whether every network of the design commutes with every permutation of the tokens."""
    plain = all(
        layer.attends and layer.pattern == Full() and layer.position == NoPosition()
        for layer in design.layer_cycle
    )
    return plain and design.input_position == NoPosition() and not design.bos


def _reached(design: Design) -> np.ndarray:
    """(tokens, tokens) bool [k, j]: token j reaches token k within the depth of the design."""
    size = design.size
    reached = np.eye(size, dtype=bool)
    assert design.depth is not None
    for layer in range(design.depth):
        pattern = design.cycle[layer % len(design.cycle)]
        sees = np.zeros((size, size), dtype=bool)
        for part in pattern.heads():
            sees |= part.mask(size).numpy()
        reached = reached | (sees.astype(np.float32) @ reached.astype(np.float32) > 0)
    return reached[design.bos :, design.bos :]


def _independent(probe: Probe, target: str) -> tuple[int, int] | None:
    """(k, j), the farthest apart, such that output k was never seen to depend on token j, though
    functions of the target class may."""
    wanted = np.ones_like(probe.depends)
    if target == "causal":
        wanted = np.tril(wanted)
    pairs = np.argwhere(wanted & ~probe.depends)
    if not len(pairs):
        return None
    k, j = max(pairs.tolist(), key=lambda pair: abs(pair[0] - pair[1]))
    return k, j


def is_causal(probe: Probe) -> bool:
    """Whether no output was seen to depend on a later token."""
    return probe.tokens > 1 and not np.triu(probe.depends, 1).any()
