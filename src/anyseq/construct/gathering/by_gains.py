"""URPE: one attention half brings the sequence, and gives every token its position.

As `anyseq.construct.gathering.offsets`, without a feed-forward half of its own. There is a head for
each offset r (and each pattern of the layer), with gain 1 at r and 0 elsewhere: token i gets w
x_(i-r) by it, w > 0 if it attends to i-r, and w from a constant feature. Let v_i be the vector of
these constants, over all heads. They are linearly independent: token i attends to token 0, i places
before it, and no token before i attends so far back. So there are forms p_i with p_i(v_j) = [i=j];
the output weights of the layer compute them. If the first token attends to nothing, v_0 = 0 and p_0
= 0; it is known by all other forms being 0, and to token i the others are those with 1 - p_i = 1.
"""

from __future__ import annotations

import torch

from anyseq.base import UNIT_ROUNDOFF, ZERO_WEIGHT_GAP
from anyseq.construct.gathering.heads import GAIN, Heads
from anyseq.construct.gathering.known import Reader
from anyseq.design import Design
from anyseq.nn import AttentionLayers, inside_attention
from anyseq.positions import URPE, Absolute, ALiBi, Sinusoidal
from anyseq.probability import Softmax


def sees_wanted(design: Design, wanted: str) -> bool:
    """Whether in the first layer every token attends to all that it needs, with some weight."""
    position, first = design.position, design.cycle[0]
    if not isinstance(position, URPE) or isinstance(position.base, Absolute | Sinusoidal):
        return False
    if isinstance(position.base, ALiBi) and not isinstance(design.probability, Softmax):
        return False
    seen = torch.eye(design.tokens, dtype=torch.bool)
    for part in first.heads():
        seen = seen | part.mask(design.size)[design.bos :, design.bos :]
    if wanted == "causal":
        seen = seen | ~torch.ones_like(seen).tril()
    return bool(seen.all()) and _told_apart(design)


def _told_apart(design: Design) -> bool:
    """Whether the v_i are independent, but for one that may be 0."""
    rows = []
    for token in range(design.bos, design.size):
        row = torch.zeros(2 * design.size - 1, len(design.cycle[0].heads()), dtype=torch.float64)
        for part, pattern in enumerate(design.cycle[0].heads()):
            for key in pattern.mask(design.size)[token].nonzero().flatten().tolist():
                row[token - key + design.size - 1, part] = 1.0
        rows.append(row.flatten())
    shown = torch.stack(rows)
    blind = int((~shown.any(1)).sum())
    return blind <= 1 and int(torch.linalg.matrix_rank(shown)) == design.tokens - blind


def gather_by_gains(
    design: Design, features: int, first_free: int
) -> tuple[Heads, AttentionLayers, dict[str, torch.Tensor], tuple[Reader, ...], float]:
    """Heads, the layer, vectors for `Stack.of`, what tokens read, and how far off that may be.

    Features: input/output | a constant, and one for BOS | places | shares of x, by heads.
    """
    size, parts = features + 1 + (features + 1) % 2, len(design.cycle[0].heads())
    vertices, tokens, bos = design.size, design.tokens, design.bos
    count = (2 * vertices - 1) * parts
    heads = Heads(design, period=parts, tellers=count, count=count, size=size)
    places_at = first_free + 2
    shares_at = places_at + tokens
    width = shares_at + count * features
    layer = heads.blank(width)
    table = torch.eye(2 * vertices - 1, dtype=torch.float64).repeat_interleave(parts, dim=0)
    shared = inside_attention(design.position)[1]
    if GAIN in layer.inside:
        layer.inside[GAIN].copy_(table)
    if layer.sink is not None:
        layer.sink.fill_(-2 * ZERO_WEIGHT_GAP)
    for head in range(count):
        first = heads.rows(head).start
        for f in range(features):
            layer.v_weight[0, first + f, f] = 1.0
            layer.o_weight[0, shares_at + head * features + f, first + f] = 1.0
        layer.v_weight[0, first + features, first_free : first_free + 2] = 1.0
    constant = torch.zeros(width, dtype=torch.float64)
    vectors = {"constant": constant.clone()}
    vectors["constant"][first_free] = 1.0
    if shared:
        vectors["gain"] = table
    if bos:
        vectors["bos"] = constant.clone()
        vectors["bos"][first_free + 1] = 1.0
    shown = _weights(heads, layer, vectors.get("gain"), first_free, shares_at, features)
    forms = torch.linalg.pinv(shown).T  # (tokens, heads)
    ones = [heads.rows(head).start + features for head in range(count)]
    layer.o_weight[0, places_at : places_at + tokens, ones] = forms
    sighted = shown.any(1)
    apart = float((shown @ forms.T - sighted.double().diag()).abs().max())
    rounds = (2 * width + 64) * UNIT_ROUNDOFF * float(forms.abs().sum(1).max())
    off = 2 * tokens * (apart + rounds)
    readers = tuple(
        Reader(
            slots=_slots(shown[i], i, tokens, features, parts, vertices, shares_at),
            others=_others(i, sighted, first_free, places_at, width),
            before=torch.zeros(width, dtype=torch.float64),
        )
        for i in range(tokens)
    )
    return heads, layer, vectors, readers, off


def _weights(
    heads: Heads,
    layer: AttentionLayers,
    gain: torch.Tensor | None,
    first_free: int,
    shares_at: int,
    features: int,
) -> torch.Tensor:
    """(tokens, heads): what a constant becomes on its way to a token by each head; computed by the
    layer, for x = 1."""
    design = heads.design
    z = torch.zeros(heads.vertices, layer.q_weight.shape[2], dtype=torch.float64)
    z[:, :features] = 1.0
    seen = heads.run(design.cycle[0], layer, gain, z)[design.bos :, shares_at:]
    return seen[:, ::features][:, : heads.count]


def _slots(
    shown: torch.Tensor,
    i: int,
    tokens: int,
    features: int,
    parts: int,
    vertices: int,
    shares_at: int,
) -> tuple[tuple[int, float, float] | None, ...]:
    slots: list[tuple[int, float, float] | None] = []
    for j in range(tokens):
        first = (i - j + vertices - 1) * parts
        head = first + int(shown[first : first + parts].argmax())
        for f in range(features):
            if i == j:
                slots.append((f, 1.0, 0.0))
            elif shown[head] > 0:
                at = shares_at + head * features + f
                slots.append((at, 1 / float(shown[head]), 0.0))
            else:
                slots.append(None)
    return tuple(slots)


def _others(
    i: int, sighted: torch.Tensor, constant_at: int, places_at: int, width: int
) -> torch.Tensor:
    form, tokens = torch.zeros(width, dtype=torch.float64), len(sighted)
    if bool(sighted[i]) and not bool(sighted.all()):
        form[constant_at], form[places_at + i] = 1.0, -1.0
        return form
    form[places_at : places_at + tokens] = 1.0
    form[places_at + i] = 0.0
    return form
