"""Pictures are made, and say what they should."""

from io import BytesIO

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import anyseq as aq
from anyseq.construct.contextual import Contextual
from anyseq.construct.request.functions import FUNCTIONS
from anyseq.errors import InvalidArgument
from anyseq.experiments import Table
from anyseq.graph import refine
from anyseq.pictures.bench_check import bench_check_figure
from anyseq.pictures.experiment import experiment_figure, grouped
from anyseq.pictures.tolerance import tolerance_figure


def words(figure: Figure) -> str:
    """All text of a figure; drawing it must work."""
    figure.savefig(BytesIO(), format="png")
    found = [figure.get_suptitle()]
    for axes in figure.axes:
        found += [axes.get_title(), axes.get_xlabel(), axes.get_ylabel()]
        found += [text.get_text() for text in axes.texts]
        legend = axes.get_legend()
        found += [text.get_text() for text in legend.get_texts()] if legend else []
    return " | ".join(found)


def approximation(tol: float, method: str, norm: str) -> aq.Approximation:
    return aq.approximate(
        FUNCTIONS["sort"], aq.Design(2), features=1, tol=tol, norm=norm, method=method,
        lipschitz=1.0,
    )  # fmt: skip


def test_the_band_of_a_sup_norm_result_holds_the_target() -> None:
    result = approximation(0.2, "gather", "sup")
    figure = aq.show(result, f=FUNCTIONS["sort"])
    text = words(figure)
    assert "proven band, T ± " in text
    assert "target f" in text
    assert "output of token 1" in text
    assert "token 2" not in text, "tokens count from 0"
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim(), "they compare"
    band = figure.axes[1].collections[0].get_paths()[0].get_extents()
    network, target = figure.axes[1].lines
    assert band.y0 <= np.min(np.asarray(target.get_ydata()))
    assert band.y1 >= np.max(np.asarray(target.get_ydata()))
    assert np.asarray(network.get_xdata()).shape == (801,)


def test_an_l_p_result_has_no_band_and_needs_no_target() -> None:
    text = words(aq.show(approximation(0.3, "yun", "lp")))
    assert "proven band" not in text
    assert "target f" not in text


def test_an_explanation_shows_its_stages() -> None:
    x = torch.tensor([[0.1], [0.7]], dtype=torch.float64)
    shown = aq.show(approximation(0.2, "gather", "sup").explain(x))
    gather = words(shown)
    for word in (
        "gather",
        "interpolate",
        "select",
        "nodes around x",
        "attends to token",
        "token 1",
    ):
        assert word in gather
    (heads,) = (panel for panel in shown.axes if panel.get_xlabel() == "head")
    assert [label.get_text() for label in heads.get_xticklabels()] == ["0", "1"]
    figure = aq.show(approximation(0.3, "yun", "lp").explain(x))
    yun = words(figure)
    for word in ("quantise", "selective shifts", "global shift", "value map"):
        assert word in yun
    assert "clip" not in yun, "it had nothing to do"


def test_contextual_ids_are_all_different() -> None:
    text = words(aq.show(Contextual(2, 1, 1, 2, positions=True)))
    assert "32 different ids for 32 tokens" in text
    for rank in range(1, 33):
        assert f"| {rank} |" in text + " |"
    with pytest.raises(InvalidArgument, match="2 tokens x 1"):
        aq.show(Contextual(3, 1, 1, 2, positions=True))


def test_a_pattern() -> None:
    causal = words(aq.show(aq.Causal(), tokens=4))
    assert "causal" in causal
    assert "attends to token j   (38 % masked)" in causal
    assert "(0 % masked)" in words(aq.show(aq.BigBird(4), 12))
    assert "documents(3, 4, 2)" in words(aq.show(aq.Documents((3, 4, 2))))
    assert "masked" in words(aq.show(aq.FromMask(aq.Causal().mask(5)) | aq.Window(1)))


def test_heads_that_differ_have_a_panel_each() -> None:
    pattern = aq.PerHead(aq.Window(1), aq.Causal(), aq.Full())
    figure = aq.show(pattern, tokens=6)
    assert "head 1: causal" in words(figure)
    for panel, head in zip(figure.axes, pattern.heads(), strict=True):
        assert (np.asarray(panel.images[0].get_array()) == head.mask(6).numpy()).all()
    design = aq.show(aq.Design(6, (pattern, aq.Full())))
    assert len(design.axes) == 4
    assert "layer 1 of every 2, head 2" in words(design)


def test_a_no_by_positions_shows_equal_tokens() -> None:
    verdict = aq.check(aq.Design(12, aq.Window(1), position=aq.NoPosition(), sinks=True))
    figure = aq.show(verdict)
    text = words(figure)
    assert "On equal tokens: only 6 different outputs" in text
    assert "No: it cannot tell equal tokens apart" in text.replace("\n", " ")
    assert "token i of 12 equal ones" in text
    rows = np.asarray(figure.axes[0].images[0].get_array())
    assert verdict.design is not None
    last = refine(verdict.design)
    assert len(rows) == last.rounds + 1
    assert len(np.unique(rows[0])) == 1
    same = rows[-1][:, None] == rows[-1]
    assert (same == (last.classes[:, None] == last.classes)).all()
    assert (rows[-1] == rows[-1][::-1]).all(), "the ends are alike"
    rope = words(aq.show(aq.check(aq.Design(8, aq.Window(2), position=aq.Rotary()))))
    assert "On equal tokens: all stay equal" in rope
    yes = words(aq.show(aq.check(aq.Design(8, aq.Window(2), position=aq.URPE()))))
    assert "layers that token j needs to reach token i" in yes
    assert "source token j" in yes


def test_different_ids_have_different_colours() -> None:
    figure = aq.show(approximation(0.3, "yun", "lp").explain([0.1, 0.7]))
    figure.savefig(BytesIO(), format="png")
    for title in ("selective shifts", "global shift"):
        panel = next(panel for panel in figure.axes if panel.get_title() == title)
        colour: dict[str, str] = {}
        for text, patch in zip(panel.texts, panel.patches, strict=True):
            colour[text.get_text()] = str(patch.get_facecolor())
        assert len(set(colour.values())) == len(colour) >= 3
    values = next(panel for panel in figure.axes if panel.get_title() == "value map")
    assert [label.get_text() for label in values.get_xticklabels()] == ["id", "T"]


def test_a_notebook_displays_pictures() -> None:
    for figure in (aq.show("window(1)", tokens=4), aq.show(aq.compare("full", tokens=4))):
        assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


def test_bars_stand_in_groups() -> None:
    settings = ["a, 1 layer", "a, 2 layers", "b, 1 layer", "b, 2 layers", "other"]
    groups = grouped(settings)
    assert [name for name, _ in groups] == ["a", "b", ""]
    assert [bar.label for bar in groups[1][1]] == ["1 layer", "2 layers"]
    assert groups[2][1][0].label == "other"
    places = [bar.place for _, bars in groups for bar in bars]
    assert np.allclose(np.diff(places), [1, 1.6, 1, 1.6])
    shared = grouped(["none", "urpe", "none, long", "urpe, long"])
    assert [name for name, _ in shared] == ["", "long"]
    assert [name for name, _ in grouped(["none", "rpe", "urpe"])] == [""]


def test_an_experiment_names_its_unit() -> None:
    rows = [
        {"experiment": "copying", "scale": "small", "setting": setting, "seed": 0,
         "metric": "accuracy", "value": 0.5}
        for setting in ("star, 1 layer", "star, 2 layers", "random, 1 layer", "random, 2 layers")
    ]  # fmt: skip
    figure = experiment_figure(Table("copying", "small", tuple(rows)))
    assert figure is not None
    text = words(figure)
    assert "Copying, at scale small" in text
    assert "accuracy, share of right answers (higher is better)" in text
    assert "random" in [one.get_text() for one in figure.axes[0].texts]


def test_a_design_of_layers() -> None:
    window = aq.Layer(aq.Causal() & aq.Window(2), aq.Rotary())
    layers = [window, window, aq.Layer(aq.Causal(), sinks=True), aq.Layer(mixer="recurrence")]
    design = aq.Design(6, layers=layers, position=aq.NoPosition(), bos=True)
    figure = aq.show(design)
    text = words(figure)
    for word in (
        "6 tokens, BOS",
        "layers 1-2 of every 4",
        "causal & window(2), rope positions",
        "layer 3 of every 4",
        "causal, no positions, sinks",
        "recurrence",
        "depends on token j (0 is BOS)",
    ):
        assert word in text
    for panel, layer in zip(figure.axes, dict.fromkeys(layers), strict=True):
        shown = np.asarray(panel.images[0].get_array())
        assert (shown == layer.sees.mask(7).numpy()).all()
    short = words(aq.show(aq.Design(5, aq.Window(1), depth=3)))
    assert "5 tokens, absolute positions at the input,\ndepth 3" in short
    assert "every layer" in short
    assert "no positions" not in short


def test_a_design_of_many_layers_or_tokens() -> None:
    layers = [aq.Layer(aq.Window(radius)) for radius in range(1, 20)]
    figure = aq.show(aq.Design(24, layers=layers, depth=19))
    assert len(figure.axes) == 16
    assert "3 further panels are not shown" in words(figure)
    assert "layer 16 of 19\n" in words(figure)
    five = aq.show(aq.Design(24, layers=layers[:5]))
    assert [panel.get_visible() for panel in five.axes] == [True] * 5 + [False]
    with pytest.raises(InvalidArgument, match="3,000 positions; expected up to 2,048"):
        aq.show(aq.Design(3000))


@pytest.mark.parametrize(("pattern", "looks"), [(aq.Full(), True), (~aq.Full(), False)])
def test_full_and_empty_patterns_look_different(pattern: aq.Pattern, looks: bool) -> None:
    (image,) = aq.show(pattern, tokens=4).axes[0].images
    assert image.get_clim() == (0, 1)
    assert image.get_array().all() == looks  # type: ignore[union-attr]


def test_tolerances() -> None:
    series = [approximation(tol, "gather", "sup") for tol in (0.4, 0.2)]
    assert "gather here" in words(tolerance_figure({"gather here": series}))


def test_no_picture_of_a_number() -> None:
    with pytest.raises(InvalidArgument, match="no picture of int"):
        aq.show(3)


def test_torch_default_dtype_is_left_alone() -> None:
    assert torch.get_default_dtype() == torch.float32


def test_pictures_of_reach_and_of_what_verdicts_cost() -> None:
    reach = aq.check(aq.Design(12, aq.Strided(3))).reach
    (panel, *_) = aq.show(reach).axes
    assert panel.get_title() == "all pairs meet within 2 layers"
    apart = aq.check(aq.Design(6, aq.Blocks(2))).reach
    assert aq.show(apart).axes[0].get_title() == "some tokens never reach some others"
    verdict = aq.check(aq.Design(6, aq.Blocks(2)))
    figure = aq.show(verdict)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["never"]
    assert not aq.show(reach).legends
    causal = aq.check(aq.Design(6, aq.Causal()), target="causal")
    assert aq.show(causal).axes[0].get_title() == "all pairs j ≤ i meet within 1 layer"
    one = aq.show(aq.check(aq.Design(1))).axes[0]
    assert all(float(tick).is_integer() for tick in one.get_xticks())
    with pytest.raises(InvalidArgument, match=r"FNet.*not known which tokens each token reaches"):
        aq.show(aq.check({"model_type": "fnet", "num_hidden_layers": 1}))
    row = {"pattern": "Window", "tokens": 8, "seconds": 0.2, "extra_bytes": 3e6}
    figure = bench_check_figure({"verdicts": [row, row | {"tokens": 16, "seconds": 0.4}]})
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["8", "16"]
