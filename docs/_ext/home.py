"""The picture of the home page: one panel for each of the four verbs, all of them computed."""

import json
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

import anyseq as aq
from anyseq.graph import reach
from anyseq.pictures.style import COLOURS, INK, PALE, figure

RESULTS = Path(__file__).parents[1] / "experiments" / "results.json"


def four_verbs() -> Figure:
    made, (check, audit, approximate, train) = figure(2, rows=2, width=3.0, height=2.7)
    _check(check)
    _audit(audit)
    _approximate(approximate)
    _train(train)
    return made


def _title(panel: Axes, verb: str, says: str) -> None:
    panel.set_anchor("W")
    panel.set_title(f"{verb}\n", loc="left", fontsize=13, fontweight="bold", color=INK)
    panel.text(0, 1.03, says, transform=panel.transAxes, fontsize=10, color=INK)


def _check(panel: Axes) -> None:
    """After how many layers of a window, with one global token, pairs of tokens meet."""
    design = aq.Design(32, "window(3) | global(16)")
    met = reach(design).layers_per_pair()
    colours = ListedColormap(["white", COLOURS[0], "#a8c4f2"])
    panel.imshow(met, cmap=colours, vmin=0, vmax=2, interpolation="none")
    _title(panel, "check", f"all tokens meet in {met.max()} layers: yes")
    panel.set_xlabel("token j")
    panel.set_ylabel("token i")
    panel.set_xticks([])
    panel.set_yticks([])


def _audit(panel: Axes) -> None:
    """What a model attends to that declares a window of 4 and was built with one of 7."""
    tokens = 20
    torch.manual_seed(0)
    model = aq.nn.Transformer(aq.Design(tokens, "causal & window(7)"), dim=8, depth=1)
    x = torch.randn(1, tokens, 8, requires_grad=True)
    out = model(x)
    rows = [torch.autograd.grad(out[0, i].sum(), x, retain_graph=True)[0][0] for i in range(tokens)]
    depends = torch.stack(rows).abs().sum(-1).numpy() > 0
    declared = (aq.Causal() & aq.Window(4)).mask(tokens).numpy()
    kinds = np.where(depends & ~declared, 2, np.where(declared, 1, 0))
    panel.imshow(kinds, cmap=ListedColormap([PALE, "#a8c4f2", COLOURS[1]]), vmin=0, vmax=2)
    _title(panel, "audit", "orange: not in the declared window")
    panel.set_xlabel("token j")
    panel.set_ylabel("token i")
    panel.set_xticks([])
    panel.set_yticks([])


def _approximate(panel: Axes) -> None:
    """A function, the network made for it, and the band that is proved."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(6 * x)

    result = aq.approximate(f, aq.Design(1), features=1, tol=0.35, lipschitz=6.0)
    x = torch.linspace(0, 1, 400, dtype=torch.float64).view(-1, 1, 1)
    line, made, target = x.flatten(), result(x).flatten(), f(x).flatten()
    assert result.error.upper is not None
    panel.fill_between(
        line, made - result.error.upper, made + result.error.upper, color=COLOURS[0], alpha=0.2
    )
    panel.plot(line, made, color=COLOURS[0], linewidth=1.8, label="the network")
    panel.plot(line, target, color=INK, linewidth=1.2, linestyle=":", label="your function")
    panel.legend(frameon=False, fontsize=10)
    _title(panel, "approximate", f"error at most {result.error.upper:.2f}, proved")


def _train(panel: Axes) -> None:
    """How often a trained model says where each of 32 equal tokens is, by position encoding."""
    rows = [
        row
        for row in json.loads(RESULTS.read_text())
        if (row["experiment"], row["metric"]) == ("constant-input", "accuracy")
    ]
    names = {"none": "none", "rpe": "relative", "absolute": "absolute", "urpe": "URPE"}
    means = [np.mean([row["value"] for row in rows if row["setting"] == name]) for name in names]
    colours = [COLOURS[1], COLOURS[1], COLOURS[0], COLOURS[0]]
    panel.barh(list(names.values()), means, color=colours)
    panel.invert_yaxis()
    panel.set_xlim(0, 1.15)
    panel.set_xticks([0, 1])
    for place, mean in enumerate(means):
        panel.text(mean + 0.02, place, f"{mean:.0%}", va="center", fontsize=10)
    _title(panel, "train", "telling 32 equal tokens apart")
