"""The ids of the contextual mapping for two tokens of one feature."""

from __future__ import annotations

from matplotlib.figure import Figure

from anyseq.construct.contextual import Contextual
from anyseq.errors import InvalidArgument
from anyseq.pictures.style import figure


def contextual_figure(context: Contextual) -> Figure:
    """For every sequence of two tokens, the rank of each token's final id among all ids.

    No number stands twice: the id names the token and the sequence that it stands in.
    """
    if (context.tokens, context.features, context.positions) != (2, 1, True):
        raise InvalidArgument(f"show: {context}; the picture is for 2 tokens x 1 with positions")
    sequences = context.sequences()
    ids = context.final_ids(sequences)
    ranks = ids.flatten().argsort().argsort().view_as(ids) + 1
    made, panels = figure(2, width=4.4, height=4.4, share="xy")
    steps = context.steps
    for token, panel in enumerate(panels):
        grid = ranks[:, token].view(steps, steps)
        panel.imshow(
            grid.numpy(), cmap="viridis", vmin=1, vmax=ids.numel(), origin="lower",
            extent=(0, 1, 0, 1), alpha=0.85,
        )  # fmt: skip
        if steps <= 16:
            for row in range(steps):
                for column in range(steps):
                    rank = int(grid[row, column])
                    panel.text(
                        (column + 0.5) / steps, (row + 0.5) / steps, str(rank),
                        ha="center", va="center", fontsize=64 / steps,
                        color="white" if rank < 0.6 * ids.numel() else "black",
                    )  # fmt: skip
        panel.set_xlabel("token 1")
        panel.set_ylabel("token 0")
        panel.set_title(f"ids of token {token}", fontsize=10)
    pairs, different = ids.numel(), ids.unique().numel()
    made.suptitle(
        f"{different} different ids for {pairs} tokens in their sequences\n"
        "(a number is the rank of the id: none stands twice)",
        fontsize=11,
    )
    return made
