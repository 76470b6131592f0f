"""What the stages of a network did to one input. Tokens and heads count from 0, layers from 1."""

from __future__ import annotations

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from anyseq.construct.explaining.explanation import Explanation
from anyseq.construct.explaining.steps import Hit, Step
from anyseq.construct.explaining.told import Node
from anyseq.construct.network.stages import ID
from anyseq.pictures.ids import Column, draw_table
from anyseq.pictures.style import COLOURS, INK, Picture, plain

_MOST_LINES = 6
_MOST_COLUMNS = 5  # of ids
_A_ROW = 4  # panels
_LARGE = 100.0  # readings beyond it are drawn on a logarithmic scale


def explanation_figure(made: Explanation) -> Figure:
    """One panel per stage that changed something: its reading, token by token, as the layers go by;
    ids as a table, equal ones in one colour; of a stage with one attention layer, what its heads
    attend to; then the nodes, if values were interpolated."""
    busy = [step for step in made.steps if step.hits]
    nodes = made.nodes if len(made.nodes) > 1 else ()
    widths = [_width(step) for step in busy] + [3.4] * bool(nodes)
    rows = [widths[at : at + _A_ROW] for at in range(0, len(widths), _A_ROW)]
    drawn = Picture(
        figsize=(max(map(sum, rows), default=3.4), 3.3 * max(len(rows), 1) + 0.4),
        layout="constrained",
    )
    drawn.suptitle(explanation_title(made), fontsize=11, color=INK)
    panels: list[Axes] = []
    if rows:
        parts = drawn.subfigures(len(rows), 1, squeeze=False).flatten()
        for part, row in zip(parts, rows, strict=True):
            axes = part.subplots(1, len(row), squeeze=False, gridspec_kw={"width_ratios": row})
            panels += axes.flatten().tolist()
    for panel in panels:
        plain(panel)
    known = explanation_ids(made)
    for step, panel in zip(busy, panels, strict=False):
        _draw(panel, step, len(made.x), known)
        panel.set_title(step.stage.name, fontsize=10)
    if nodes:
        _draw_nodes(panels[-1], nodes)
    return drawn


def explanation_title(made: Explanation) -> str:
    """The input, and what runs on it."""
    x = ", ".join(f"{value:.4g}" for value in made.x.flatten()[:8].tolist())
    more = ", ..." if made.x.numel() > 8 else ""
    return f'What {made.layers:,} layers by method "{made.method}" did to x = ({x}{more})'


def explanation_ids(made: Explanation) -> torch.Tensor:
    """All ids that a token has had, in ascending order."""
    ids = [torch.empty(0, dtype=torch.float64)]
    for step in made.steps:
        if step.stage.reading.label == ID:
            ids += [step.before.flatten(), *(hit.after.flatten() for hit in step.hits)]
    every: torch.Tensor = torch.cat(ids).unique()
    return every


def _draw(panel: Axes, step: Step, tokens: int, known: torch.Tensor) -> None:
    columns = _columns(step)
    attending = [hit for hit in step.hits if hit.looks]
    if columns:
        draw_table(panel, columns, known)
    elif len(attending) == 1 and len(attending[0].looks) > 1:
        _draw_attention(panel, attending[0])
    else:
        _draw_reading(panel, step, tokens)


def _width(step: Step) -> float:
    columns = _columns(step)
    return 0.9 + 1.0 * len(columns) if columns else 3.4


def _columns(step: Step) -> list[Column]:
    """Of ids: before the stage, and after the layers that changed one; of what becomes of ids:
    both. Of other numbers none."""
    if step.stage.reading.label != ID:
        if step.ids is None or step.after.shape[1] > 1:
            return []
        return [
            Column("id", step.ids),
            Column(step.stage.reading.label, step.after[:, 0], ids=False),
        ]
    columns = [Column("before", step.before[:, 0])]
    columns += [Column(f"layer {hit.layer + 1:,}", hit.after[:, 0]) for hit in step.hits]
    if len(columns) > _MOST_COLUMNS:
        last = columns[-1]
        columns = [*columns[: _MOST_COLUMNS - 1], Column(f"... {last.head}", last.numbers)]
    return columns


def _draw_reading(panel: Axes, step: Step, tokens: int) -> None:
    """Lines of steps: a number of each token before, between and after the layers that changed
    it."""
    at = torch.tensor([step.first, *(hit.layer + 0.5 for hit in step.hits)]) + 0.5
    at = torch.cat([at, torch.tensor([step.first + step.stage.layers + 0.5])])
    values = torch.stack([step.before, *(hit.after for hit in step.hits), step.after])
    same = tokens > 1 and bool((values == values[:, :1]).all())
    lines = [
        (token, number)
        for token in range(1 if same else tokens)
        for number in range(values.shape[2])
    ]
    for colour, (token, number) in enumerate(lines[:_MOST_LINES]):
        label = "every token" if same else f"token {token}"
        label += f", number {number}" if values.shape[2] > 1 else ""
        height = values[:, token, number]
        panel.step(at, height, where="post", color=COLOURS[colour], lw=1.6, label=label)
    if float(values.abs().max()) > _LARGE:
        panel.set_yscale("symlog", linthresh=1.0)
    panel.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True, min_n_ticks=1))
    panel.set_xlabel("layer")
    panel.set_ylabel(step.stage.reading.label, fontsize=9)
    panel.legend(fontsize=8, frameon=False)


def _draw_attention(panel: Axes, hit: Hit) -> None:
    """Row: a token; column: a head; in it the token it attends to, darker for more weight."""
    weights = torch.stack(list(hit.looks.values()))
    bos = weights.shape[1] - len(hit.after)
    most, at = weights[:, bos:].max(2)
    panel.imshow(most.T.numpy(), cmap="Blues", vmin=0, vmax=2)
    heads, tokens = most.shape
    for line in range(1, heads):
        panel.axvline(line - 0.5, color="white", lw=2)
    for line in range(1, tokens):
        panel.axhline(line - 0.5, color="white", lw=2)
    if heads * tokens <= 64:
        for head in range(heads):
            for token in range(tokens):
                place = int(at[head, token]) - bos
                text = "BOS" if place < 0 else str(place)
                panel.text(head, token, text, ha="center", va="center", color=INK, fontsize=10)
    panel.set_xticks(range(heads), [str(head) for head in hit.looks])
    panel.set_yticks(range(tokens), [str(token) for token in range(tokens)])
    panel.set_xlabel("head")
    panel.set_ylabel("token i attends to token", fontsize=9)


def _draw_nodes(panel: Axes, nodes: tuple[Node, ...]) -> None:
    """The weights of the nodes around x."""
    shown = nodes[: 2 * _MOST_LINES]
    names = []
    for node in shown:
        point = [f"{value:g}" for value in node.point.flatten()[:4].tolist()]
        names.append(f"({', '.join(point)}{', ...' if node.point.numel() > 4 else ''})")
    panel.barh(range(len(shown)), [node.weight for node in shown], color=COLOURS[0], height=0.6)
    panel.set_yticks(range(len(shown)), names, fontsize=8)
    panel.invert_yaxis()
    panel.set_xlabel("weight")
    panel.set_title("nodes around x", fontsize=10)
