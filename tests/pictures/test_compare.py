"""The picture of a comparison."""

from io import BytesIO

import numpy as np
import pytest
from matplotlib.colors import to_rgb

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.pictures.compare import _BEYOND, _NEVER


def test_panels_and_bars() -> None:
    words = ("window(2), depth 2", "blocks(4)", "full")
    figure = aq.show(aq.compare(*words, tokens=16))
    figure.savefig(BytesIO(), format="png")
    panels = figure.axes[:3]
    for panel, text in zip(panels, words, strict=True):
        assert text in panel.get_title(loc="left")
    assert "no; all pairs meet in 8 layers, has 2" in panels[0].get_title(loc="left")
    assert "no; some pairs never meet" in panels[1].get_title(loc="left")
    near, apart, dense = (np.asarray(panel.images[0].get_array())[..., :3] for panel in panels)
    assert near[0, -1] == pytest.approx(to_rgb(_BEYOND))
    assert apart[0, -1] == pytest.approx(to_rgb(_NEVER))
    assert near[0, 1] == pytest.approx(dense[0, 1]), "one scale for all"
    titles = [panel.get_title(loc="left") for panel in figure.axes]
    assert "keys a token attends to, a layer" in titles
    assert "keys kept in a cache, a layer" not in titles, "there is no cache"


def test_long_and_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyseq.pictures.compare._LINES", 32)
    six = aq.compare(*["causal & window(500), rope"] * 6, tokens=3000, target="causal")
    figure = aq.show(six)
    image = np.asarray(figure.axes[0].images[0].get_array())
    assert image.shape[:2] == (32, 32)
    assert image[0, -1, :3].tolist() == [1, 1, 1], "not asked"
    assert sum("causal & window(500)" in panel.get_title(loc="left") for panel in figure.axes) == 6


def test_nothing_to_draw() -> None:
    unread = aq.compare({"model_type": "fnet", "num_hidden_layers": 1})
    with pytest.raises(InvalidArgument, match="no design describes any of these"):
        aq.show(unread)
    aq.show(aq.compare("(recurrence)", tokens=4)).savefig(BytesIO(), format="png")
