"""An independent check of what tells places apart: numbers instead of tables and colours.

Random heads are run on constant features in float64, layer by layer. Equal places get equal numbers
up to rounding, so that a gap far above rounding proves that two places differ.
"""

from __future__ import annotations

import numpy as np
import torch

from anyseq.base import generator
from anyseq.design import (
    Average,
    Bilinear,
    Convolution,
    Design,
    Layer,
    LinearAttention,
    Recurrence,
)
from anyseq.positions import URPE, Absolute, ALiBi, GridBias, Rotary, Shaw, Sinusoidal
from anyseq.probability import Entmax15, Softmax, Sparsemax, TopK

_GAP = 1e-8  # between numbers of size 1
_HEADS = (8, 64, 512)


def told_apart(design: Design, layers: int) -> bool:
    """Whether some network of the design, of that many layers, gives all tokens different outputs
    on identical tokens. If a few random heads do not show it, more may."""
    if isinstance(design.input_position, Absolute | Sinusoidal):
        return True
    return any(_told_apart_by(heads, design, layers) for heads in _HEADS)


def _told_apart_by(heads: int, design: Design, layers: int) -> bool:
    rng, cycle = generator(0), design.layer_cycle
    places = _start(design)
    for turn in range(layers):
        seen = [places.double()[:, None]]
        for mask in (head.mask(design.size) for head in cycle[turn % len(cycle)].sees.heads()):
            layer = cycle[turn % len(cycle)]
            some = _random_heads if layer.attends else _random_sums
            seen += some(heads, layer, mask, places, rng)
        places = _numbered(torch.cat(seen, dim=1))
    return len(places[design.bos :].unique()) == design.tokens


def _random_heads(
    heads: int, layer: Layer, mask: torch.Tensor, places: torch.Tensor, rng: torch.Generator
) -> list[torch.Tensor]:
    """The outputs of random heads of a layer on constant features: (size, 1) each."""
    size, probability, seen = len(mask), layer.probability, []
    bias, gain = _labels(layer, size)
    slopes, many = isinstance(_base(layer), ALiBi), max(4 * size, int(bias.max()) + 1)
    ties = not isinstance(probability, Softmax | Sparsemax | Entmax15)
    # who wins changes at single offsets only: such maps need heads for all of them
    for _ in range(heads * size if ties and slopes else heads):
        most = size if slopes else 2
        score, level = (
            torch.randint(-most, most + 1, (many,), generator=rng).double()
            if ties
            else torch.randn(many, generator=rng, dtype=torch.float64)
            for _ in range(2)
        )
        # ALiBi's slopes lie between 2^-8 and 1, and contents can make up for any distance
        slope = 8 * torch.rand((), generator=rng, dtype=torch.float64)
        slope = 2.0 ** -(slope.round() if ties else slope)  # powers of two tie exactly
        if isinstance(probability, Sparsemax | Entmax15):
            # far apart few keys have weight, close together all of them
            closeness = 0.5 ** int(torch.randint(8, (), generator=rng))
            score, level = score * closeness, level * closeness
        if slopes:
            reach = 1 if ties else torch.randint(1, size + 1, (), generator=rng)
            level = level * slope * reach
        by_label = -slope * bias if slopes else score[bias]
        scores = by_label + level[places][None, :]
        scores = scores.masked_fill(~mask, -torch.inf)
        if layer.sinks:
            scores = torch.cat([scores, level[-1].expand(size, 1)], dim=1)
        weights = probability(scores)[:, :size]
        factor = torch.randn(4 * size, generator=rng, dtype=torch.float64)
        value = torch.randn(size, generator=rng, dtype=torch.float64)
        if len(gain.unique()) > 1:
            weights = weights * factor[gain]
        seen.append(weights @ value[places][:, None])
    return seen


def _random_sums(
    count: int, layer: Layer, mask: torch.Tensor, places: torch.Tensor, rng: torch.Generator
) -> list[torch.Tensor]:
    """The outputs of random layers that are not attention on constant features: (size, 1) each."""
    size = len(mask)
    offset = torch.arange(size)[:, None] - torch.arange(size)
    seen = []
    for _ in range(count):
        value, by_offset = torch.randn(2, 2 * size, generator=rng, dtype=torch.float64)
        match layer.mixer:
            case Recurrence():  # a state that decays
                decay = 0.2 + 0.75 * torch.rand((), generator=rng, dtype=torch.float64)
                weights = decay ** offset.clamp(min=0)
            case Convolution():
                weights = by_offset[offset + size]
            case Bilinear():
                weights = torch.randn(size, size, generator=rng, dtype=torch.float64)
            case LinearAttention(normalised=False):
                weights = torch.ones(size, size, dtype=torch.float64)
            case _:
                weights = 1 / mask.sum(1, keepdim=True).clamp(min=1).double()
        seen.append((weights * mask) @ value[places][:, None])
    return seen


def names_keys(design: Design, number: int) -> bool:
    """Whether a layer lets a token distinguish its keys: keys have positions, or the map is
    continuous, and no two keys of a row have the same label. (ALiBi's slopes are given, so that
    another map than softmax may leave keys without weight.)"""
    layer = design.layer_cycle[number]
    if isinstance(design.input_position, Absolute | Sinusoidal):
        return True
    sloped = isinstance(_base(layer), ALiBi)
    if layer.attends and not _is_continuous(layer, design.size, any_map=not sloped):
        return False
    for mask in (head.mask(design.size) for head in layer.sees.heads()):
        label = _seen_labels(torch.ones_like(mask), layer)
        rows = zip(label, mask, strict=True)
        if any(len(row[some].unique()) < int(some.sum()) for row, some in rows):
            return False
    return True


def looks_back(design: Design, number: int) -> bool:
    """Whether a layer is a window of the past, of the token itself and one more at least, whose
    keys a continuous map can weigh alike; with ALiBi in the limit, by softmax."""
    layer, index = design.layer_cycle[number], torch.arange(design.size)
    sloped = isinstance(_base(layer), ALiBi)
    if layer.attends and not _is_continuous(layer, design.size, any_map=not sloped):
        return False
    if not (layer.attends or isinstance(layer.mixer, Average | LinearAttention)):
        return False
    masks = [head.mask(design.size) for head in layer.sees.heads()]
    reach = int(masks[0][-1].sum()) - 1
    window = (index[:, None] >= index) & (index[:, None] - index <= reach)
    return len(masks) == 1 and reach > 0 and bool(masks[0].equal(window))


def _is_continuous(layer: Layer, size: int, any_map: bool) -> bool:
    """Whether weights change little with scores; any_map: sparsemax and entmax15 will do."""
    probability = layer.probability
    whole = isinstance(probability, TopK) and probability.k >= size + layer.sinks
    sparse = any_map and isinstance(probability, Sparsemax | Entmax15)
    return isinstance(probability, Softmax) or whole or sparse


def looks_different(design: Design, layers: int | None = None) -> bool:
    """Whether no two tokens are alike when all tokens differ. First by sums over what each place
    attends to, and what those attend to, of random functions of labels and of these sums
    themselves; then, for places with equal sums, by trying to map what one attends to onto what the
    other attends to. Too many trials count as alike.

    layers: only by sums, over so many layers from the second one on.
    """
    size, rng, cycle = design.size, generator(0), design.layer_cycle
    places = _start(design)
    views_of = [
        [(head.mask(size), _seen_labels(head.mask(size), layer)) for head in layer.sees.heads()]
        for layer in cycle
    ]
    together = [view for views in views_of for view in views]
    for turn in range(size if layers is None else layers):
        views = together if layers is None else views_of[(1 + turn) % len(cycle)]
        seen = [places.double()[:, None]]
        for mask, label in views:
            one, two = torch.randn(2, size, generator=rng, dtype=torch.float64)[:, places]
            angle = label * 0.7548776662466927 % 1.0 * 6.0  # an irrational step: labels spread out
            seen.append(((angle * one + two).sin() * mask).sum(1, keepdim=True))
        finer = _numbered(torch.cat(seen, dim=1))
        if layers is None and len(finer.unique()) == len(places.unique()):
            break
        places = finer
    if len(places[design.bos :].unique()) == design.tokens:
        return True
    if layers is not None:
        return False
    rows = [
        [{j: int(label[i, j]) for j in mask[i].nonzero()[:, 0].tolist()} for i in range(size)]
        for mask, label in together
    ]
    alike = _Alike(rows, places.tolist())
    tokens = range(design.bos, size)
    try:
        return not any(alike.extend({i: j}, [i]) for i in tokens for j in tokens if i < j)
    except RecursionError:
        return False


class _Alike:
    """Trials to map what one place attends to onto what another attends to."""

    def __init__(self, views: list[list[dict[int, int]]], places: list[int]) -> None:
        self.views, self.places, self.left = views, places, 20_000

    def extend(self, image: dict[int, int], open_: list[int]) -> bool:
        """Whether the map can be extended to all that the open places attend to."""
        self.left -= 1
        if self.left < 0:
            raise RecursionError
        if not open_:
            return True
        u = open_[0]
        for view in self.views:
            ours, theirs = view[u], view[image[u]]
            if len(ours) != len(theirs):
                return False
            for w, label in ours.items():
                if w in image:
                    if theirs.get(image[w]) != label:
                        return False
                    continue
                used = set(image.values())
                return any(
                    self.extend({**image, w: other}, [*open_, w])
                    for other, there in theirs.items()
                    if there == label and other not in used and self.places[w] == self.places[other]
                )
        return self.extend(image, open_[1:])


def _seen_labels(mask: torch.Tensor, layer: Layer) -> torch.Tensor:
    """(size, size) labels of pairs, biases up to what normalisation hides: a constant of a whole
    row, which is all that a slope or a single label can differ by; a sink shows it."""
    bias, gain = _labels(layer, len(mask))
    if layer.attends and not layer.sinks:
        low = bias.masked_fill(~mask, int(bias.max()) + 1).amin(1, keepdim=True)
        high = bias.masked_fill(~mask, -1).amax(1, keepdim=True)
        bias = bias - low if isinstance(_base(layer), ALiBi) else bias * (low < high)
    return bias.clamp(min=0) * (4 * len(mask)) + gain


def _base(layer: Layer) -> object:
    return layer.position.base if isinstance(layer.position, URPE) else layer.position


def _start(design: Design) -> torch.Tensor:
    if isinstance(design.input_position, Absolute | Sinusoidal):
        return torch.arange(design.size)
    return (torch.arange(design.size) < design.bos).long()


def _labels(layer: Layer, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(size, size) whole numbers >= 0: the label of each pair for biases, and for gains."""
    index = torch.arange(size)
    offset, base = index[:, None] - index[None, :], _base(layer)
    plain = torch.zeros_like(offset)
    if isinstance(layer.mixer, Bilinear):
        return plain, index[:, None] * size + index
    if not layer.attends:
        by_offset = isinstance(layer.mixer, Convolution | Recurrence)
        return plain, offset + size if by_offset else plain
    if isinstance(base, Rotary):
        bias = offset + size
    elif isinstance(base, GridBias):
        cells = torch.stack(torch.unravel_index(index, base.shape), dim=1)
        apart = (cells[:, None] - cells[None, :]).flatten(0, 1)
        bias = torch.unique(apart, dim=0, return_inverse=True)[1].view(size, size)
    else:
        bias = base.label(offset) if hasattr(base, "label") else plain
        if not isinstance(base, ALiBi):  # whose labels are distances; others only need to differ
            bias = torch.unique(bias, return_inverse=True)[1]
    gain = bias if isinstance(base, Shaw) else plain
    return bias, (offset + size if isinstance(layer.position, URPE) else gain)


def _numbered(seen: torch.Tensor) -> torch.Tensor:
    """Rows (size, k) as whole numbers: equal if they agree up to rounding. One random direction
    tells rows apart as well as all of them."""
    mixed = seen.numpy() / max(1.0, float(seen.abs().max()))
    line = mixed @ np.random.default_rng(0).standard_normal(seen.shape[1])
    order = np.argsort(line)
    steps = np.concatenate([[0], np.cumsum(np.diff(line[order]) > _GAP)])
    numbers = np.empty(len(line), dtype=np.int64)
    numbers[order] = steps
    return torch.from_numpy(numbers)
