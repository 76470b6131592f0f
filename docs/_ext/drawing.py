"""Pictures of the theorem pages and of the gallery that `aq.show` does not make."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

import anyseq as aq
from anyseq.base import layers_text
from anyseq.graph import reach, refine
from anyseq.pictures.style import COLOURS, INK, PALE, figure

MASK = ListedColormap([PALE, COLOURS[0]])
NEVER = "#f6d9c8"
MANY = (*COLOURS, "#5b8c2a", "#7a6a58", "#2aa6b8", "#e08aa8", "#6b7280", "#a3b82e")


def _square(panel: Axes, rows: str, columns: str) -> None:
    panel.set_xlabel(columns)
    panel.set_ylabel(rows)
    panel.set_xticks([])
    panel.set_yticks([])


def mask_and_reach(design: aq.Design) -> Figure:
    """On the left the union of the layers' masks, on the right after how many layers pairs meet."""
    made, (left, right) = figure(2, width=3.1, height=3.2)
    tokens = design.tokens
    mask = np.any([layer.pattern.mask(tokens).numpy() for layer in design.layer_cycle], axis=0)
    left.imshow(mask, cmap=MASK, vmin=0, vmax=1, interpolation="none")
    left.set_title("attends to, in one layer", fontsize=9)
    met = reach(design).layers_per_pair()[:, :tokens].astype(float)
    met[met < 0] = np.nan
    most = int(np.nanmax(met))
    right.set_facecolor(NEVER)
    right.imshow(met, cmap="Blues", vmin=0, vmax=most, interpolation="none")
    never = "; orange: never" if np.isnan(met).any() else ""
    right.set_title(f"reaches, in at most {layers_text(most)}{never}", fontsize=9)
    for panel in (left, right):
        _square(panel, "token i", "token j")
    return made


def reach_steps(design: aq.Design, depths: Sequence[int]) -> Figure:
    """Row i is coloured where token j reaches token i within so many layers."""
    met = reach(design).layers_per_pair()
    made, panels = figure(len(depths), width=2.2, height=2.5)
    for panel, depth in zip(panels, depths, strict=True):
        panel.imshow((met >= 0) & (met <= depth), cmap=MASK, vmin=0, vmax=1)
        panel.set_title(layers_text(depth), fontsize=9)
        _square(panel, "token i" if panel is panels[0] else "", "reached by token j")
    return made


def _colours(panel: Axes, rows: Sequence[np.ndarray], names: Sequence[str]) -> None:
    for row, classes in enumerate(rows):
        for place, colour in enumerate(classes):
            panel.add_patch(_cell(place, row, MANY[int(colour) % len(MANY)]))
            panel.text(
                place, row, str(colour), ha="center", va="center", color="white", fontsize=10
            )
    panel.set_xlim(-0.5, len(rows[0]) - 0.5)
    panel.set_ylim(len(rows) - 0.5, -0.5)
    panel.set_yticks(range(len(rows)), names)
    panel.set_xticks(range(len(rows[0])))
    panel.set_xlabel("position")
    panel.set_aspect("equal")
    panel.spines[:].set_visible(False)
    panel.tick_params(length=0)


def _cell(x: float, y: float, colour: str) -> FancyBboxPatch:
    return FancyBboxPatch(
        (x - 0.4, y - 0.4), 0.8, 0.8, boxstyle="round,pad=0,rounding_size=0.12", color=colour
    )


def colours_by_layer(design: aq.Design) -> Figure:
    """One row a layer: positions of one number are told apart by no network of that depth."""
    last = refine(design).rounds
    rows = [np.zeros(design.tokens, int)]
    for depth in range(1, last + 1):
        rows.append(_renamed(refine(replace(design, depth=depth)).classes))
    names = ["start"] + [f"layer {depth}" for depth in range(1, last + 1)]
    made, (panel,) = figure(1, width=0.62 * design.tokens + 1.4, height=0.62 * len(rows) + 0.7)
    _colours(panel, rows, names)
    return made


def _renamed(classes: np.ndarray) -> np.ndarray:
    """Colours numbered in the order in which they come."""
    order: dict[int, int] = {}
    return np.array([order.setdefault(int(c), len(order)) for c in classes])


def side_by_side(*cases: tuple[aq.Design, str]) -> Figure:
    """The colours in the end, design by design."""
    rows = [_renamed(refine(design).classes) for design, _ in cases]
    made, (panel,) = figure(1, width=0.62 * len(rows[0]) + 2.2, height=0.62 * len(rows) + 0.7)
    _colours(panel, rows, [name for _, name in cases])
    return made


def norm_error() -> Figure:
    """What an RMS norm of (x, A) leaves of x, undone by a factor."""
    made, (panel,) = figure(1, width=4.6, height=2.8)
    x = np.linspace(-1, 1, 201)
    for size, colour in zip((10.0, 100.0, 1000.0), COLOURS, strict=False):
        error = np.abs(x / np.sqrt((x**2 + size**2) / 2) * size / np.sqrt(2) - x)
        panel.semilogy(x[error > 0], error[error > 0], color=colour, label=f"A = {size:,.0f}")
    panel.set_xlabel("x")
    panel.set_ylabel("error")
    panel.legend(frameon=False, fontsize=9)
    return made


def encoder_decoder(inputs: int, outputs: int) -> Figure:
    """Rows are the decoder's tokens; columns the encoder's outputs, then its own tokens."""
    made, (panel,) = figure(1, width=4.2, height=2.4)
    own = np.tri(outputs)
    panel.imshow(np.hstack([np.ones((outputs, inputs)), own]), cmap=MASK, vmin=0, vmax=1)
    panel.axvline(inputs - 0.5, color=INK, linewidth=2)
    names = [f"x{j}" for j in range(inputs)] + [f"y{j}" for j in range(outputs)]
    panel.set_xticks(range(inputs + outputs), names)
    panel.set_yticks(range(outputs), [f"y{i}" for i in range(outputs)])
    panel.set_xlabel("attends to")
    panel.set_ylabel("decoder")
    return made


def affine_misses_square() -> Figure:
    """x² on [0, 1] and x - 1/8."""
    made, (panel,) = figure(1, width=4.2, height=2.8)
    x = np.linspace(0, 1, 101)
    panel.plot(x, x**2, color=INK, label="x²")
    panel.plot(x, x - 0.125, color=COLOURS[0], label="x - 1/8")
    panel.fill_between(x, x**2, x - 0.125, color=COLOURS[0], alpha=0.15)
    panel.set_xlabel("x")
    panel.legend(frameon=False, fontsize=9)
    return made


def tents(count: int) -> Figure:
    """Sums of disjoint tents, with two choices of signs."""
    made, (panel,) = figure(1, width=4.6, height=2.4)
    x = np.linspace(0, 1, 80 * count + 1)
    tent = np.abs((x * count + 0.5) % 1 - 0.5)
    place = np.minimum((x * count).astype(int), count - 1)
    for signs, colour in ((np.arange(count) % 2, COLOURS[0]), (np.arange(count) < 2, COLOURS[1])):
        panel.plot(x, tent * (2 * signs[place] - 1), color=colour)
    panel.axhline(0, color=INK, linewidth=0.6)
    panel.set_xlabel("x")
    panel.set_yticks([])
    return made
