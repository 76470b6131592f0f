"""Layer by layer: which tokens each token reaches, and which equal tokens a design tells apart."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba

from anyseq.base import layers_text
from anyseq.design import Design
from anyseq.errors import InvalidArgument
from anyseq.graph import ANIMATION_TOKENS, reach
from anyseq.pictures.animation import Animation, evenly, paced
from anyseq.pictures.positions import draw_classes, equal_tokens
from anyseq.pictures.style import COLOURS, INK, PALE, Picture, plain, whole_ticks

_MOST_FRAMES = 24
_LEGEND = "coloured: token j has reached token i; orange: in this very layer"
_LAYER = 0.5  # seconds


@dataclass(frozen=True)
class Grown:
    """What is animated of a design: its name, and whether it is universal, if that was asked.

    layers: (tokens, tokens) the layers that token j needs to reach token i, -1 for never, or not in
        the layers that there are.
    classes: those of equal tokens after 0, 1, ... layers; none, if nothing is said of positions.
    """

    name: str
    universal: bool | None
    layers: np.ndarray
    classes: tuple[np.ndarray, ...]

    @classmethod
    def of(
        cls, design: Design, name: str, *, universal: bool | None = None, positions: bool = True
    ) -> Grown:
        if design.tokens > ANIMATION_TOKENS:
            raise InvalidArgument(
                f"animate: {design.tokens:,} tokens; expected up to {ANIMATION_TOKENS}, such as "
                "the same design with fewer tokens"
            )
        classes = tuple(equal_tokens(design)) if positions else ()
        layers = reach(design).layers_per_pair()
        if design.depth is not None:
            layers[layers > design.depth] = -1
        return cls(name, universal, layers, classes)

    @property
    def last(self) -> int:
        """The last layer that changes anything."""
        return max(int(self.layers.max()), len(self.classes) - 1)


def growth(designs: Sequence[Grown]) -> Animation:
    """A column for each design: above, row i is coloured where token j has reached it, what is new
    in orange; below, equal tokens, a colour for each class."""
    last = max(1, *(one.last for one in designs))
    layers = evenly(last, _MOST_FRAMES)
    positions = any(one.classes for one in designs)
    made = Picture(
        figsize=(max(3.9 * len(designs), 5.4), 4.7 + 1.25 * positions), layout="constrained"
    )
    made.get_layout_engine().set(w_pad=0.12, h_pad=0.06)  # type: ignore[union-attr,call-arg]
    rows = made.subplots(
        1 + positions, len(designs), squeeze=False,
        gridspec_kw={"height_ratios": [6.0, 1.0] if positions else [1.0]},
    )  # fmt: skip
    made.supxlabel(_LEGEND, fontsize=9, color=INK)

    def draw(frame: int) -> None:
        layer = layers[frame]
        when = f"after {layers_text(layer)}"
        made.suptitle(
            f"Which tokens have reached which: {when}", fontsize=13, fontweight="bold", color=INK
        )
        for one, panels in zip(designs, rows.T, strict=True):
            _draw_reach(panels[0], one, layer, last, new=layer - layers[max(frame - 1, 0)])
            if positions:
                _draw_equal(panels[1], one, layer, final=frame == len(layers) - 1)

    names = " and ".join(one.name for one in designs)
    says = f"{names}: which tokens each token reaches, layer by layer"
    return Animation(made, draw, paced(len(layers), _LAYER), says)


def _draw_reach(panel: Axes, one: Grown, layer: int, last: int, new: int) -> None:
    there = (one.layers >= 0) & (one.layers <= layer)
    shades = colormaps["Blues"](0.95 - 0.6 * np.maximum(one.layers, 0) / last)
    image = np.where(there[..., None], shades, to_rgba(PALE))
    image[there & (one.layers > layer - new)] = to_rgba(COLOURS[1])
    panel.clear()
    plain(panel)
    panel.imshow(image, interpolation="none")
    whole_ticks(panel)
    panel.set_title(textwrap.fill(one.name, 34), fontsize=11, color=INK)
    panel.set_xlabel(f"source token j: {int(100 * there.mean())} % of pairs reached")
    panel.set_ylabel("token i")


def _draw_equal(panel: Axes, one: Grown, layer: int, *, final: bool) -> None:
    if not one.classes:
        panel.set_visible(False)
        return
    classes = one.classes[min(layer, len(one.classes) - 1)]
    draw_classes(panel, [classes])
    plain(panel)
    panel.set_yticks([])
    panel.set_xlabel("on equal tokens: same colour, same output")
    kinds, tokens = len(np.unique(classes)), len(classes)
    says = "all equal" if kinds == 1 else f"{kinds} different outputs for {tokens} tokens"
    colour, weight = INK, "normal"
    if final and one.universal is not None:
        equal = ": equal tokens stay equal" * (kinds < tokens)
        says = "yes, every function" if one.universal else f"no, not every function{equal}"
        colour, weight = COLOURS[2 if one.universal else 1], "bold"
    panel.set_title(says, fontsize=10, color=colour, fontweight=weight)
