"""Animations show what the layers do, frame by frame, in files that need nothing else."""

from base64 import b64decode
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL.GifImagePlugin import GifImageFile

import anyseq as aq
from anyseq.construct.contextual import Contextual
from anyseq.errors import FileProblem, InvalidArgument
from anyseq.graph import classes_by_layer, reach, refine

PICTURE = Path(__file__).parents[2] / "docs" / "anyseq.gif"


def frames(gif: bytes) -> tuple[int, int]:
    """How many, and how long they are shown in all, in milliseconds."""
    image = GifImageFile(BytesIO(gif))
    assert image.info["loop"] == 0
    taken = 0
    for frame in range(image.n_frames):
        image.seek(frame)
        taken += image.info["duration"]
    return image.n_frames, taken


@pytest.mark.parametrize(
    "design",
    [
        aq.Design(8, aq.Window(1), position=aq.NoPosition(), sinks=True),
        aq.Design(8, (aq.Window(1), aq.Causal()), position=aq.NoPosition(), bos=True),
        aq.Design(8, aq.Window(2), position=aq.URPE()),
        aq.Design(8, aq.Window(2), position=aq.Rotary()),
        aq.Design(8, aq.Window(2)),
        aq.Design(8, aq.Window(1), position=aq.NoPosition(), sinks=True, depth=2),
    ],
)
def test_classes_only_split_and_end_as_refinement_says(design: aq.Design) -> None:
    found, end = classes_by_layer(design), refine(design)
    assert len(found) == end.rounds + 1
    assert np.array_equal(found[-1], end.classes) or end.rounds == 0
    for before, after in pairwise(found):
        together = after[:, None] == after
        assert (before[:, None] == before)[together].all()
        assert len(np.unique(after)) >= len(np.unique(before))


def test_reach_grows_frame_by_frame() -> None:
    design = aq.Design(8, aq.Window(1), position=aq.Rotary())
    made = aq.animate(design)
    layers = reach(design).layers_per_pair()
    assert len(made.seconds) == layers.max() + 1
    panel, equal = made.figure.axes
    for layer in (0, 3, 7):
        made.draw(layer)
        image = np.asarray(panel.images[0].get_array())
        pale = image[0, -1] if layer < 7 else None
        assert panel.get_xlabel().endswith(
            f"{int(100 * (layers <= layer).mean())} % of pairs reached"
        )
        if pale is not None:
            assert ((image == pale).all(2) == (layers > layer)).all()
    assert equal.get_title() == "all equal"


def test_a_design_with_few_layers_stops_there() -> None:
    made = aq.animate(aq.Design(12, aq.Window(1), depth=3))
    assert len(made.seconds) == 4
    made.draw(3)
    share = (np.abs(np.subtract.outer(np.arange(12), np.arange(12))) <= 3).mean()
    assert f"{int(100 * share)} % of pairs reached" in made.figure.axes[0].get_xlabel()
    assert len(aq.animate(aq.Design(1)).gif) > 1000


def test_a_comparison_ends_with_its_answers() -> None:
    made = aq.animate(aq.compare("window(2), rope", "longformer(2), urpe", tokens=12))
    last = len(made.seconds) - 1
    made.draw(last)
    titles = [panel.get_title() for panel in made.figure.axes]
    assert "no, not every function: equal tokens stay equal" in titles
    assert "yes, every function" in titles
    made.draw(last - 1)
    assert "12 different outputs for 12 tokens" in [p.get_title() for p in made.figure.axes]


def test_ids_become_all_different() -> None:
    context = Contextual(2, 1, 1, 2, positions=True)
    ids = context.ids_by_layer(context.sequences())
    assert torch.equal(ids[-1], context.final_ids(context.sequences()))
    assert len(ids) == context.size.layers + 1
    counts = [len(one.unique()) for one in ids]
    assert (counts[0], counts[-1]) == (8, 32)
    made = aq.animate(context)
    made.draw(0)
    assert "before the first layer of 9: 8 different ids" in made.figure.get_suptitle()
    made.draw(len(made.seconds) - 1)
    assert "32 different ids for 32 tokens" in made.figure.get_suptitle()
    (strip,) = (three := aq.animate(Contextual(3, 1, 1, 2, positions=True))).figure.axes
    three.draw(len(three.seconds) - 1)
    assert "192 different ids for 192 tokens" in three.figure.get_suptitle()
    shown = np.asarray(strip.images[0].get_array())
    assert shown.shape == (3, 64)
    assert len(np.unique(shown)) == shown.size
    with pytest.raises(InvalidArgument, match="expected up to 4,096"):
        aq.animate(Contextual(3, 1, 1, 5, positions=True))


def test_the_ids_of_a_network() -> None:
    result = aq.approximate(
        aq.functions["sort"], aq.Design(2), features=1, tol=0.3, norm="lp", method="yun"
    )
    made = aq.animate(result)
    made.draw(len(made.seconds) - 1)
    assert "8 different ids for 8 tokens" in made.figure.get_suptitle()
    for other in (
        aq.approximate(aq.functions["sort"], aq.Design(2), features=1, tol=0.3),
        aq.approximate(
            aq.functions["sort"], aq.Design(3, aq.Window(1)), features=1, tol=1.0, norm="lp",
            method="yun",
        ),
    ):  # fmt: skip
        with pytest.raises(InvalidArgument, match="no contextual mapping of dense attention"):
            aq.animate(other)


def test_an_explanation_layer_by_layer() -> None:
    result = aq.approximate(
        aq.functions["sort"], aq.Design(2), features=1, tol=0.3, norm="lp", method="yun"
    )
    explained = result.explain([0.1, 0.7])
    made = aq.animate(explained)
    assert len(made.seconds) == 1 + sum(len(step.hits) for step in explained.steps)
    (panel,) = made.figure.axes

    def table() -> list[str]:
        return [text.get_text() for text in panel.texts]

    made.draw(0)
    assert table() == ["0.1", "0.7"]
    made.draw(len(made.seconds) - 1)
    (values,) = (step for step in explained.steps if step.stage.name == "value map")
    assert values.ids is not None
    ids = [f"{value:,.15g}" for value in values.ids.tolist()]
    outputs = [f"{value:.5g}" for value in explained.y.flatten().tolist()]
    assert table() == [*ids, *outputs]


def test_a_long_purpose_is_cut_after_a_sentence() -> None:
    result = aq.approximate(
        aq.functions["reverse"], aq.Design(3), features=1, tol=0.1, method="gather", lipschitz=1.0
    )
    made = aq.animate(result.explain([0.1, 0.7, 0.3]))
    (panel,) = made.figure.axes
    made.draw(2)
    title = " ".join(panel.get_title().split())
    assert title.startswith("layer 2: interpolate Every token interpolates f")
    assert title.endswith("with their weights.")


def test_files_stand_alone(tmp_path: Path) -> None:
    made = aq.animate("window(2)", tokens=6)
    made.save(tmp_path / "reach.gif")
    count, taken = frames((tmp_path / "reach.gif").read_bytes())
    assert count == len(made.seconds)
    assert taken == pytest.approx(1000 * sum(made.seconds))
    made.save(str(tmp_path / "reach.html"))
    page = (tmp_path / "reach.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "http" not in page
    inside = page.split("base64,")[1].split('"')[0]
    assert b64decode(inside) == made.gif
    assert 'alt="window(2)' in made._repr_html_()
    with pytest.raises(FileProblem, match=r"ending in \.gif or \.html"):
        made.save(tmp_path / "reach.mp4")
    with pytest.raises(FileProblem, match="cannot be written"):
        made.save(tmp_path / "no" / "reach.gif")


def test_what_cannot_be_animated() -> None:
    with pytest.raises(InvalidArgument, match="no animation of int"):
        aq.animate(3)
    with pytest.raises(InvalidArgument, match="1,000 tokens; expected up to 256"):
        aq.animate(aq.Design(1000, aq.Window(1)))
    with pytest.raises(InvalidArgument, match="no design describes"):
        aq.animate(aq.check({"model_type": "fnet", "num_hidden_layers": 1}))


def test_the_picture_of_the_front_page() -> None:
    """`make gif` writes it."""
    count, taken = frames(PICTURE.read_bytes())
    assert PICTURE.stat().st_size < 600_000
    assert 6_000 <= taken <= 10_000
    assert count >= 10
