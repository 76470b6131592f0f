"""Rules that prove: each gives a certificate that the design is universal.

All of them need feed-forward layers and free width. The theorems and their proofs stand in
docs/theorems.md.
"""

from __future__ import annotations

from anyseq.base import layers_text
from anyseq.verdicts.certificate import Certificate
from anyseq.verdicts.question import Question, has_gain, has_slopes
from anyseq.verdicts.ruling import Ruling
from anyseq.verdicts.verdict import Finding


def gather(question: Question) -> Ruling | None:
    """Theorem 5.1: positions become known, then every token collects the sequence; sup norm, hence
    every L^p, hence also every smaller target class."""
    design = question.design
    if question.uncovered is not None or not question.reach.holds:
        return None
    if not question.knows_positions and not question.refinement.discrete:
        return None
    rounds = 0 if question.knows_positions else question.refinement.rounds
    phase = rounds % len(design.cycle)
    layers = question.reach.layers_after(phase)
    assert layers is not None
    needed = max(1, rounds + layers)
    one_layer = _one_layer(question, rounds)
    if one_layer:
        phase, layers, needed = 0, 1, 1
    rule = "gather"
    if design.depth is not None and design.depth < needed:
        return _between(question, needed)
    if one_layer:
        saw = "one layer of gains gathers the sequence and tells every token its position"
    elif rounds == 0:
        saw = f"every token has gathered the sequence after {layers_text(layers)}"
    else:
        saw = (
            f"every token knows its position after {layers_text(rounds)}, and has gathered the "
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
    return Ruling(Finding(rule, True, saw, "Theorem 5.1"), certificate=certificate)


def covered(question: Question) -> Ruling | None:
    """What keeps the theorems from saying yes, whatever else holds."""
    why = question.uncovered
    if why is None or not any(layer.feedforward for layer in question.layers):
        return None  # the latter says the rule "feed-forward"
    return Ruling(Finding("theorems", None, why, "Theorems 5.1 and 5.2"))


def rigid(question: Question) -> Ruling | None:
    """Theorem 5.2: in L^p it is enough that no two places look alike when all tokens differ; for
    every smaller target class, too."""
    design = question.design
    if question.norm != "lp":
        return None
    if question.uncovered is not None or not question.reach.holds:
        return None
    if question.knows_positions or question.refinement.discrete or not question.symmetry.rigid:
        return None
    rule, theorem = "rigidity", "Theorem 5.2"
    rough = [layer for layer in question.layers if not question.is_smooth(layer)]
    if rough:
        name = type(rough[0].probability).__name__
        saw = f"no two places look alike, but {name} is not continuous: the theorem asks for that"
        return Ruling(Finding(rule, None, saw, theorem))
    if design.depth is not None:
        saw = f"no two places look alike, but whether depth {design.depth} suffices is not known"
        return Ruling(Finding(rule, None, saw, theorem))
    reach = question.reach
    assert reach.layers is not None
    certificate = Certificate(
        kind="rigid",
        design=design,
        target=question.wanted,
        layers=reach.layers,
        proof=reach.proof,
        hub=reach.hub,
    )
    saw = "no two places look alike when all tokens differ"
    return Ruling(Finding(rule, True, saw, theorem), certificate=certificate)


def mean(question: Question) -> Ruling | None:
    """Equivariant functions are ψ(x_i, mean of φ(x_j)), nearly: φ in the feed-forward half of a
    block, then a block whose attention is uniform over all tokens."""
    design, cycle = question.design, question.design.layer_cycle
    if question.target != "equivariant" or question.uncovered is not None:
        return None
    rule, theorem = "mean", "the sum construction"
    if all(map(has_slopes, cycle)):
        saw = "ALiBi's slopes are never 0, so that no layer averages evenly"
        return Ruling(Finding(rule, None, saw, theorem))
    even = (one for one in question.full_layers if not has_slopes(cycle[one % len(cycle)]))
    layer = next(even, None)
    if layer is None or (design.depth is not None and layer >= design.depth):
        saw = "no layer after the first sees all tokens at once, and no theorem covers other ways"
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


def _one_layer(question: Question, rounds: int) -> bool:
    """One layer with a gain for each offset: head r takes x_(i-r) alone, and the heads that find a
    token tell what i sees, in offsets; if that is all that is wanted, and tells i, it is enough."""
    first = question.layers[0]
    soft = question.is_soft(first) or not has_slopes(first)
    return soft and has_gain(first) and rounds <= 1 and (question.reach.layers or 0) <= 1


def _between(question: Question, needed: int) -> Ruling:
    """A depth for which the construction is too deep."""
    saw = f"{layers_text(needed)} would certainly do, depth is {question.design.depth}"
    return Ruling(Finding("gather", None, saw, "Theorem 5.1, depth"))
