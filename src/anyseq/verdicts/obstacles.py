"""Rules that refute: each finds a function that no network of the design computes.

They hold for every width and depth (up to the design's own, if it has one), and every weight.
"""

from __future__ import annotations

import numpy as np

from anyseq.base import layers_text
from anyseq.design import Layer
from anyseq.graph import fixing
from anyseq.positions import Shaw, base_of
from anyseq.verdicts import witnesses
from anyseq.verdicts.question import Question, has_gain
from anyseq.verdicts.ruling import Ruling
from anyseq.verdicts.verdict import Finding


def final_norm(question: Question) -> Ruling | None:
    """A last norm without parameters: features sum to 0, or have a bounded size (W10, W11)."""
    design = question.design
    if design.head or design.final_norm not in ("layernorm", "rmsnorm"):
        return None  # a linear map, or learned scales, make up for it
    witness = witnesses.normed(design.tokens, question.norm, design.final_norm)
    finding = Finding("outputs", False, witness.why, witness.name)
    return Ruling(finding, witness=witness)


def ids(question: Question) -> Ruling | None:
    """Sequences of ids are finitely many: none of them has measure 0."""
    if question.design.domain != "ids":
        return None
    saw = "every sequence of ids counts, so the answers for sup norm and L^p are the same"
    return Ruling(Finding("token ids", True, saw, "docs/theorems.md, Token ids"))


def reach(question: Question) -> Ruling:
    """Every token must be reached by every token that it may depend on (W5, W6)."""
    design, reach = question.design, question.reach
    rule, theorem = "reach", "Theorem 1"
    if question.readout is not None:
        return _reach_of_one(question)
    late = design.depth is not None and reach.layers is not None and reach.layers > design.depth
    if reach.layers is not None and not late:
        every = "every earlier token" if question.wanted == "causal" else "every token"
        saw = f"{every} reaches every token in {layers_text(reach.layers)} (by {reach.proof})"
        return Ruling(Finding(rule, True, saw, theorem))
    pair = reach.last[0] if late else reach.unreached
    assert pair is not None
    k, j = pair
    saw = (
        f"token {j:,} reaches token {k:,} after {layers_text(reach.layers)}, "
        f"depth is {design.depth}"
        if late and reach.layers is not None
        else f"token {j:,} never reaches token {k:,}"
    )
    return _unreached(question, k, j, saw)


def _reach_of_one(question: Question) -> Ruling:
    """The same where one output is read."""
    design, place = question.design, question.readout
    assert place is not None
    missing = question.unheard
    if missing is None:
        saw = f"all that output {place} may depend on reaches it"
        return Ruling(Finding("reach", True, saw, "Theorem 3"))
    within = (
        "never reaches"
        if design.depth is None
        else f"in {layers_text(design.depth)} does not reach"
    )
    return _unreached(question, place, missing, f"token {missing:,} {within} token {place:,}")


def _unreached(question: Question, k: int, j: int, saw: str) -> Ruling:
    name = "W5" if question.is_causal and j > k else "W6"
    tokens = question.design.tokens
    witness = witnesses.unreached(tokens, k, j, question.norm, question.target, name)
    return Ruling(Finding("reach", False, saw, name), witness=witness)


def positions(question: Question) -> Ruling | None:
    """In sup norm, identical tokens must be told apart by their positions (W1, W8)."""
    if question.norm != "sup" or question.target == "equivariant" or question.readout is not None:
        return None
    design, found = question.design, question.refinement
    rule, theorem = "positions", "Theorem 1"
    if question.knows_positions:
        return Ruling(Finding(rule, True, "every token is given its position", theorem))
    if found.stuck is not None:
        i, other = found.stuck
        classes = len(np.unique(found.limit))
        name = "W8" if question.is_causal and classes == 1 else "W1"
        saw = (
            f"identical tokens stay identical at all {design.tokens:,} positions"
            if classes == 1
            else f"identical tokens fall into {classes} classes; {i:,} and {other:,} share one"
        )
        witness = witnesses.stuck(design.tokens, i, other, name)
        return Ruling(Finding(rule, False, saw, name), witness=witness)
    if not found.discrete:
        saw = "whether this probability map tells all positions apart is not known"
        return Ruling(Finding(rule, None, saw, theorem))
    saw = f"identical tokens are told apart after {layers_text(found.rounds)}"
    return Ruling(Finding(rule, True, saw, theorem))


def symmetries(question: Question) -> Ruling | None:
    """In L^p, no permutation but the identity may commute with the design (W2, W3, W4)."""
    if question.norm != "lp" or question.target == "equivariant" or question.knows_positions:
        return None
    if not question.reach.holds or question.readout is not None:
        return None  # refuted already; one output alone is like no other
    rule, theorem = "symmetries", "Theorem 2"
    if question.refinement.discrete:  # a symmetry would keep the classes of the refinement
        saw = "positions are told apart even on identical tokens, so no two are alike"
        return Ruling(Finding(rule, True, saw, theorem))
    found = question.symmetry
    if found.rigid:
        return Ruling(Finding(rule, True, "only the identity keeps the design", theorem))
    if found.rigid is None:
        return Ruling(Finding(rule, None, "the search for symmetries was given up", theorem))
    tokens = question.design.tokens
    assert found.image is not None
    if found.root is None:
        witness = witnesses.symmetric(found.image, found.kind)
    else:
        image = {u: v for u, v in enumerate(found.image) if v >= 0}
        witness = witnesses.exchanged(tokens, found.root, image)
    return Ruling(Finding(rule, False, witness.why, witness.name), witness=witness)


def readout(question: Question) -> Ruling | None:
    """One output cannot tell two sequences apart if a map of the other tokens onto each other keeps
    all that it depends on (W2)."""
    place, design = question.readout, question.design
    if place is None or question.target == "equivariant" or question.knows_positions:
        return None
    image = fixing(design, place)
    wanted = place + 1 if question.wanted == "causal" else design.tokens
    moved = [(u, v) for u, v in (image or {}).items() if u != v < wanted]
    if not moved:
        return None
    witness = witnesses.interchanged(design.tokens, place, image or {}, moved[0], question.norm)
    return Ruling(Finding("readout", False, witness.why, witness.name), witness=witness)


def feed_forward(question: Question) -> Ruling | None:
    """Without feed-forward layers and norms, identical tokens are mapped affinely as long as
    nothing tells them apart and rows of weights sum to 1 (W7)."""
    design = question.design
    if any(layer.feedforward for layer in question.layers):
        return None
    rule = "feed-forward"
    if (
        question.norm == "sup"
        and design.domain == "cube"
        and design.final_norm is None
        and design.block_norm is None
        and not design.bos
        and all(map(_stochastic, question.layers))
        and not question.knows_positions
        and len(np.unique(question.refinement.limit)) == 1
        and not question.has_empty_row
    ):
        witness = witnesses.affine(design.tokens)
        return Ruling(Finding(rule, False, witness.why, "W7"), witness=witness)
    saw = "there are no feed-forward layers, and no theorem covers that"
    return Ruling(Finding(rule, None, saw, "Theorems 1 and 2"))


def _stochastic(layer: Layer) -> bool:
    """Whether it is attention whose weights sum to 1 in every row."""
    shifts = has_gain(layer) or isinstance(base_of(layer.position), Shaw)
    return layer.attends and not layer.sinks and not shifts
