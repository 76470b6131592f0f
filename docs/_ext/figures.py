"""Pictures that are drawn when the site is built, from the code that stands in the page.

    ```{picture} what it shows, for those who cannot see it
    aq.show(aq.Window(2), tokens=16)
    ```

The code is one expression: a matplotlib Figure, made of `aq`, `torch` and `drawing`.
"""

import os
from hashlib import sha256
from pathlib import Path

import torch
from docutils import nodes
from matplotlib.figure import Figure
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

import anyseq as aq
import drawing
import home

FOLDER = Path(__file__).parents[2] / "build" / "docs" / "pictures"


def drawn(code: str) -> tuple[Path, float]:
    """The file of the picture that the expression makes, and how many inches wide it is."""
    picture = eval(code, {"aq": aq, "torch": torch, "drawing": drawing, "home": home})
    if not isinstance(picture, Figure):
        raise ExtensionError(f"picture: {code!r} makes a {type(picture).__name__}, not a Figure")
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"{sha256(code.encode()).hexdigest()[:16]}.png"
    picture.savefig(file, dpi=160, facecolor="white")
    return file, picture.get_figwidth()


def image(directive: SphinxDirective, code: str, alt: str) -> nodes.image:
    """The node of that picture, in a page of whatever folder; text in it is as large as text."""
    page = Path(directive.env.doc2path(directive.env.docname)).parent
    file, inches = drawn(code)
    uri = Path(os.path.relpath(file, page)).as_posix()
    return nodes.image(uri=uri, alt=alt, classes=["drawn"], width=f"{96 * inches:.0f}px")


class Picture(SphinxDirective):
    has_content = True
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        return [image(self, "\n".join(self.content).strip(), self.arguments[0])]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True}
