"""A figure drawn frame by frame, as a GIF or a page of HTML that needs no other file."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import cached_property
from html import escape
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from anyseq.errors import FileProblem

_DPI = 100
_COLOURS = 255
_FIRST, _LAST = 1.4, 2.6  # seconds
_SAMPLE = 12  # frames that the palette is made of
_ENDINGS = (".gif", ".html")


def evenly(last: int, most: int) -> list[int]:
    """0, 1, ..., last; of more than `most` numbers, that many, evenly spread."""
    return sorted({round(number) for number in np.linspace(0, last, min(most, last + 1)).tolist()})


def paced(frames: int, each: float) -> list[float]:
    """Seconds for each frame; the first and the last stay longer."""
    return [_FIRST, *[each] * (frames - 2), _LAST][-frames:]


class Animation:
    """A notebook plays it; `.save(file)` writes a .gif or .html.

    draw(frame) changes the figure to that frame, 0, 1, ...; seconds: how long each is shown. says:
    what is to be seen, for those who cannot see it.
    """

    def __init__(
        self, figure: Figure, draw: Callable[[int], None], seconds: Sequence[float], says: str
    ) -> None:
        self.figure, self.draw, self.seconds, self.says = figure, draw, tuple(seconds), says

    def __repr__(self) -> str:
        return f"Animation of {len(self.seconds)} frames, {sum(self.seconds):.1f} s: {self.says}"

    @cached_property
    def gif(self) -> bytes:
        """The file, played over and over."""
        images = self._images()
        # one palette for all, so that colours do not flicker
        sample = [np.asarray(image) for image in images[:: -(-len(images) // _SAMPLE)]]
        palette = Image.fromarray(np.concatenate([*sample, np.asarray(images[-1])])).quantize(
            _COLOURS, method=Image.Quantize.MAXCOVERAGE
        )
        first, *others = (
            image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images
        )
        file = BytesIO()
        first.save(
            file, format="GIF", save_all=True, append_images=others, loop=0,
            duration=[round(1000 * each) for each in self.seconds],
        )  # fmt: skip
        return file.getvalue()

    def save(self, file: str | Path) -> None:
        """Write the animation; the ending of the name says in which format."""
        file = Path(file)
        if file.suffix not in _ENDINGS:
            raise FileProblem(f"animation {str(file)!r}: expected a name ending in .gif or .html")
        content = self.gif if file.suffix == ".gif" else self._page().encode()
        try:
            file.write_bytes(content)
        except OSError as problem:
            raise FileProblem(f"animation {str(file)!r} cannot be written: {problem}") from problem

    def _repr_html_(self) -> str:
        data = b64encode(self.gif).decode()
        return (
            f'<img src="data:image/gif;base64,{data}" alt="{escape(self.says)}" '
            'style="max-width:100%">'
        )

    def _page(self) -> str:
        return (
            '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width">\n'
            f"<title>{escape(self.says)}</title>\n{self._repr_html_()}\n</html>\n"
        )

    def _images(self) -> list[Image.Image]:
        canvas = FigureCanvasAgg(self.figure)
        self.figure.set_dpi(_DPI)
        last = len(self.seconds) - 1
        self.draw(last)  # the fullest frame says where everything stands in all
        canvas.draw()
        self.figure.set_layout_engine("none")
        images = []
        for frame in range(len(self.seconds)):
            self.draw(frame)
            canvas.draw()
            images.append(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB"))
        return images
