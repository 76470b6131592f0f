"""A contextual mapping, or the stages of a network on one input, layer by layer."""

from __future__ import annotations

import textwrap

import torch
from matplotlib.axes import Axes

from anyseq.construct.contextual import Contextual
from anyseq.construct.explain import Explanation, Hit, Step
from anyseq.construct.stages import ID
from anyseq.errors import InvalidArgument
from anyseq.pictures.animation import Animation
from anyseq.pictures.explain import explanation_ids, explanation_title
from anyseq.pictures.ids import Column, draw_table
from anyseq.pictures.style import INK, Picture, distinct, plain

_FIRST, _LAYER, _LAST = 1.4, 0.8, 2.6  # seconds
_MOST_FRAMES = 48
_MOST_NUMBERS = 6  # of a token
_WIDE = 62  # letters of a line


def explanation_stages(made: Explanation) -> Animation:
    """The input, and then, after each layer that changed it, what its stage is about, token by
    token; ids in colours, equal ones alike."""
    changes = [(step, hit) for step in made.steps for hit in step.hits]
    changes = [*changes[: _MOST_FRAMES - 1], *changes[-1:]][: len(changes)]
    tables = [_numbers("x", made.x)]
    tables += [_columns(step, hit) for step, hit in changes]
    known, most = explanation_ids(made), max(map(len, tables))
    drawn = Picture(
        figsize=(max(5.4, 1.5 + 1.2 * most), 2.5 + 0.45 * len(made.x)), layout="constrained"
    )
    drawn.suptitle(textwrap.fill(explanation_title(made), _WIDE), fontsize=11, color=INK)
    panel = drawn.subplots()

    def draw(frame: int) -> None:
        panel.clear()
        plain(panel)
        draw_table(panel, tables[frame], known)
        what, does, says = "the input", "", ""
        if frame:
            step, hit = changes[frame - 1]
            what = f"layer {hit.layer + 1:,}: {step.stage.name}"
            does = textwrap.shorten(step.stage.does, 2 * _WIDE - 10)
            ids = step.stage.reading.label == ID
            many = len(hit.after.unique(dim=0))
            says = f"{many} different ids" if ids else ""
            if hit.after.shape[1] > 1:
                says = step.stage.reading.label
        lines = [what, *textwrap.wrap(does, _WIDE), "", ""][:3]  # as high in every frame
        panel.set_title("\n".join(lines), fontsize=10, color=INK)
        panel.set_xlabel(says or " ")

    seconds = [_FIRST, *[_LAYER] * (len(tables) - 2), _LAST][-len(tables) :]
    return Animation(drawn, draw, seconds, explanation_title(made))


def _columns(step: Step, hit: Hit) -> list[Column]:
    """What the stage is about, after a layer; beside ids, what has become of them so far."""
    label, after = step.stage.reading.label, hit.after
    if step.ids is not None and after.shape[1] == 1:
        mapped = torch.where(after == step.before, torch.nan, after)
        return [Column("id", step.ids), Column(label, mapped[:, 0], ids=False)]
    return [Column(ID, after[:, 0])] if label == ID else _numbers(label, after)


def _numbers(label: str, numbers: torch.Tensor) -> list[Column]:
    """The numbers of each token, (tokens, numbers); of several the first few, counted from 0."""
    if numbers.shape[1] == 1:
        return [Column(label, numbers[:, 0], ids=False)]
    return [Column(f"{at}", one, ids=False) for at, one in enumerate(numbers.T[:_MOST_NUMBERS])]


def contextual_stages(context: Contextual) -> Animation:
    """For every sequence of two tokens of one feature, the ids of both tokens after each layer, a
    colour for each id; at the end all differ."""
    if (context.tokens, context.features, context.positions) != (2, 1, True):
        raise InvalidArgument(f"animate: {context}; expected 2 tokens x 1 with positions")
    ids = context.ids_by_layer(context.sequences())
    changed = [0] + [at for at in range(1, len(ids)) if not torch.equal(ids[at], ids[at - 1])]
    made = Picture(figsize=(7.6, 4.6), layout="constrained")
    panels = made.subplots(1, 2, sharex=True, sharey=True)

    def draw(frame: int) -> None:
        layer = changed[frame]
        known = ids[layer].unique()
        for token, panel in enumerate(panels):
            ranks = torch.searchsorted(known, ids[layer][:, token].contiguous())
            _draw_ranks(panel, ranks.view(context.steps, context.steps), len(known))
            panel.set_title(f"ids of token {token}", fontsize=10)
        what = "before the first layer" if layer == 0 else f"after layer {layer:,}"
        what = f"{what} of {len(ids) - 1:,}"
        made.suptitle(
            f"{what}: {len(known)} different ids for {ids[layer].numel()} tokens in their "
            "sequences", fontsize=11, color=INK,
        )  # fmt: skip

    seconds = [_FIRST, *[_LAYER] * (len(changed) - 2), _LAST]
    return Animation(made, draw, seconds, "How many ids differ after each layer")


def _draw_ranks(panel: Axes, ranks: torch.Tensor, count: int) -> None:
    panel.clear()
    plain(panel)
    panel.imshow(
        ranks.numpy(), cmap=distinct(count), vmin=0, vmax=max(count - 1, 1), origin="lower",
        extent=(0, 1, 0, 1), interpolation="none",
    )  # fmt: skip
    panel.set_xlabel("token 1")
    panel.set_ylabel("token 0")
