"""A contextual mapping, or the stages of a network on one input, layer by layer."""

from __future__ import annotations

import textwrap

import torch

from anyseq.construct.contextual import Contextual
from anyseq.construct.explaining.explanation import Explanation
from anyseq.construct.explaining.steps import Hit, Step
from anyseq.construct.network.stages import ID
from anyseq.errors import InvalidArgument
from anyseq.pictures.animation import Animation, evenly, paced
from anyseq.pictures.explain import explanation_ids, explanation_title
from anyseq.pictures.ids import Column, draw_table
from anyseq.pictures.style import INK, Picture, distinct, plain

_LAYER, _CHANGE = 0.8, 0.4  # seconds
_MOST_FRAMES = 48
_MOST_SEQUENCES = 4096
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
            does = _short(step.stage.does)
            ids = step.stage.reading.label == ID
            many = len(hit.after.unique(dim=0))
            says = f"{many} different ids" if ids else ""
            if hit.after.shape[1] > 1:
                says = step.stage.reading.label
        lines = [what, *textwrap.wrap(does, _WIDE), "", ""][:3]  # as high in every frame
        panel.set_title("\n".join(lines), fontsize=10, color=INK)
        panel.set_xlabel(says or " ")

    return Animation(drawn, draw, paced(len(tables), _LAYER), explanation_title(made))


def _short(text: str) -> str:
    """As many of its sentences as two lines hold."""
    room = 2 * _WIDE - 10
    while len(text) > room and ". " in text:
        text = text[: text.rindex(". ") + 1]
    return textwrap.shorten(text, room)


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
    """For every sequence on the grid, the ids of its tokens after each layer, a colour for each id;
    at the end all differ. Of two tokens x 1 a square for each token, otherwise one strip."""
    count = context.token_cells**context.tokens
    if count > _MOST_SEQUENCES:
        raise InvalidArgument(
            f"animate: {count:,} sequences; expected up to {_MOST_SEQUENCES:,}, such as fewer "
            "tokens or a larger tolerance"
        )
    ids = context.ids_by_layer(context.sequences())
    changed = [0] + [at for at in range(1, len(ids)) if not torch.equal(ids[at], ids[at - 1])]
    changed = [changed[at] for at in evenly(len(changed) - 1, _MOST_FRAMES)]
    square = (context.tokens, context.features, context.positions) == (2, 1, True)
    made = Picture(figsize=(7.6, 4.6 if square else 3.2), layout="constrained")
    panels = made.subplots(1, 1 + square, squeeze=False).flatten()

    def draw(frame: int) -> None:
        layer = changed[frame]
        known = ids[layer].unique()
        ranks = torch.searchsorted(known, ids[layer])
        for token, panel in enumerate(panels):
            panel.clear()
            plain(panel)
            colours = distinct(len(known))
            shown = ranks[:, token].view(context.steps, -1) if square else ranks.T
            panel.imshow(
                shown.numpy(), cmap=colours, vmin=0, vmax=max(len(known) - 1, 1),
                aspect="equal" if square else "auto", interpolation="none",
                extent=(0, 1, 0, 1) if square else None, origin="lower" if square else "upper",
            )  # fmt: skip
            if square:
                panel.set_title(f"ids of token {token}", fontsize=10)
            else:
                panel.set_yticks(range(context.tokens))
            panel.set_xlabel("token 1" if square else "sequence")
            panel.set_ylabel("token 0" if square else "token")
        when = f"after layer {layer:,}" if layer else "before the first layer"
        made.suptitle(
            f"{when} of {len(ids) - 1:,}: {len(known):,} different ids for "
            f"{ids[layer].numel():,} tokens in their sequences", fontsize=11, color=INK,
        )  # fmt: skip

    return Animation(
        made, draw, paced(len(changed), _CHANGE), "How many ids differ after each layer"
    )
