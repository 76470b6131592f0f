"""Rules that prove: each gives a certificate that the design is universal.

All of them need feed-forward layers and free width; norms and mixers other than attention are
allowed where docs/theorems.md says so. The theorems are stated and proved in docs/theorems.md.
"""

from __future__ import annotations

import numpy as np

from anyseq.base import layers_text
from anyseq.design import Average, Bilinear, Convolution, Recurrence
from anyseq.graph import apart_after
from anyseq.verdicts.certificate import Certificate
from anyseq.verdicts.question import Question, has_gain, has_slopes
from anyseq.verdicts.ruling import Ruling
from anyseq.verdicts.verdict import Finding


def gather(question: Question) -> Ruling | None:
    """Theorem 1: positions become known, then every token collects the sequence; sup norm, hence
    every L^p, hence also every smaller target class."""
    design = question.design
    if question.uncovered is not None or not question.reach.holds:
        return None
    if not question.knows_positions and not question.refinement.discrete:
        return None
    if question.ties_matter and not question.knows_positions:
        saw = "norms break ties between equal tokens, and the map jumps there"
        return Ruling(Finding("gather", None, saw, "Theorem 1, norms"))
    rounds = 0 if question.knows_positions else question.refinement.rounds
    idle = _idle(question, rounds)
    phase = (rounds + idle) % len(design.cycle)
    layers = question.reach.layers_after(phase)
    assert layers is not None
    needed = max(1, rounds + idle + layers)
    one_layer = _one_layer(question, rounds)
    if one_layer:
        phase, layers, needed, idle = 0, 1, 1, 0
    rule = "gather"
    if design.depth is not None and design.depth < needed:
        return _between(question, needed)
    if one_layer:
        saw = "one layer gathers the sequence and gives every token its position"
    elif rounds == 0:
        saw = f"every token has gathered the sequence after {layers_text(idle + layers)}"
    else:
        saw = (
            f"every token has its position after {layers_text(rounds)}, and has gathered the "
            f"sequence {layers_text(layers)} later"
        )
    certificate = Certificate(
        kind="gather",
        design=design,
        target=question.wanted,
        layers=layers,
        phase=phase,
        proof=question.reach.proof,
        hub=question.reach.hub,
        rounds=rounds,
    )
    return Ruling(Finding(rule, True, saw, "Theorem 1"), certificate=certificate)


def covered(question: Question) -> Ruling | None:
    """What keeps the theorems from applying, whatever else holds."""
    why = question.uncovered
    if why is None or not any(layer.feedforward for layer in question.layers):
        return None  # the latter says the rule "feed-forward"
    return Ruling(Finding("theorems", None, why, "Theorems 1 and 2"))


def rigid(question: Question) -> Ruling | None:
    """Theorem 2: in L^p it is enough that no two places are alike when all tokens differ; for every
    smaller target class, too."""
    design = question.design
    if question.norm != "lp" or question.uncovered is not None or not question.reach.holds:
        return None
    if _proved(gather(question)):
        return None
    apart = question.knows_positions or question.refinement.discrete
    if not (apart or question.symmetry.rigid):
        return None
    rule, theorem = "rigidity", "Theorem 2"
    rounds, phase, layers = 0, 0, question.reach.layers
    if design.depth is not None:
        told = apart_after(design)
        phase = 0 if told is None else (1 + told) % len(design.cycle)
        layers = question.reach.layers_after(phase)
        assert layers is not None
        if told is None or design.depth < 1 + told + layers:
            saw = f"no two places are alike; whether depth {design.depth} suffices is not known"
            return Ruling(Finding(rule, None, saw, theorem))
        rounds = told
    assert layers is not None
    certificate = Certificate(
        kind="rigid",
        design=design,
        target=question.wanted,
        layers=layers,
        phase=phase,
        proof=question.reach.proof,
        hub=question.reach.hub,
        rounds=rounds,
    )
    saw = "no two places are alike when all tokens differ"
    if design.depth is not None:
        saw += f"; {layers_text(1 + rounds + layers)} are enough"
    return Ruling(Finding(rule, True, saw, theorem), certificate=certificate)


def readout(question: Question) -> Ruling | None:
    """Where one output is read, sequences must be told apart at that output only (Theorem 3)."""
    design, rule, theorem = question.design, "readout", "Theorem 3"
    if question.readout is None or question.uncovered is not None or _proved(gather(question)):
        return None
    if not (question.knows_positions or all(map(question.is_smooth, question.layers))):
        saw = "whether one output depends on all tokens is known for continuous maps only"
        return Ruling(Finding(rule, None, saw, theorem))
    naming = tuple(map(question.names_keys, design.layer_cycle))
    layers = question.layers_to_readout(naming)
    if layers is None and design.depth is None:
        naming = tuple(map(question.is_window_of_the_past, design.layer_cycle))
        layers = question.layers_to_readout(naming)
    if layers is None:
        saw = f"whether output {question.readout} tells all sequences apart is not known"
        return Ruling(Finding(rule, None, saw, theorem))
    certificate = Certificate(
        kind="readout",
        design=design,
        target=question.wanted,
        layers=layers,
        phase=1 % len(design.layer_cycle),
        useful=tuple(np.flatnonzero(naming).tolist()),
    )
    saw = f"output {question.readout} gets all that it may depend on, key by key"
    return Ruling(Finding(rule, True, saw, theorem), certificate=certificate)


def mean(question: Question) -> Ruling | None:
    """Equivariant functions are ψ(x_i, mean of φ(x_j)), nearly: φ in the feed-forward half of a
    block, then a block that averages over all tokens."""
    design, cycle = question.design, question.design.layer_cycle
    if question.target != "equivariant" or question.uncovered is not None:
        return None
    rule, theorem = "mean", "the sum construction"
    if question.ties_matter:
        saw = "norms break the ties that an average by this map rests on"
        return Ruling(Finding(rule, None, saw, theorem))
    layer = next(iter(question.full_layers), None)
    if layer is None or (design.depth is not None and layer >= design.depth):
        saw = "no layer after the first averages over all tokens, and no theorem covers other ways"
        return Ruling(Finding(rule, None, saw, theorem))
    certificate = Certificate(
        kind="mean",
        design=design,
        target="all",
        layers=1,
        full_layer=layer % len(cycle),
    )
    saw = f"layer {layer + 1} can average over all tokens"
    return Ruling(Finding(rule, True, saw, theorem), certificate=certificate)


def _proved(ruling: Ruling | None) -> bool:
    return ruling is not None and ruling.certificate is not None


def _idle(question: Question, rounds: int) -> int:
    """1 if the first layer gives all that a token attends to in one sum, before a feed-forward
    half has put each token's content into a slot of its own."""
    return int(rounds == 0 and isinstance(question.layers[0].mixer, Average | Bilinear))


def _one_layer(question: Question, rounds: int) -> bool:
    """One layer that sums by offset: a head with a gain for each, a convolution, a recurrence. It
    delivers every x_(i-r) alone, and the offsets that i depends on; if these are all that is
    wanted, and determine i, it is enough."""
    first = question.layers[0]
    by_offset = isinstance(first.mixer, Convolution | Recurrence)
    if first.attends and has_gain(first):
        by_offset = question.is_soft(first) or not has_slopes(first)
    return by_offset and rounds <= 1 and (question.reach.layers or 0) <= 1


def _between(question: Question, needed: int) -> Ruling:
    """The finding that the construction needs more than the depth."""
    saw = f"{layers_text(needed)} are enough, depth is {question.design.depth}"
    return Ruling(Finding("gather", None, saw, "Theorem 1, depth"))
