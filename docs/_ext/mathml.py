"""Maths as MathML, made when the site is built: nothing is fetched when a page is read.

Where a device has no font for maths, a phone for instance, STIX is loaded from the site itself;
matplotlib brings the file.
"""

import shutil
from pathlib import Path

import matplotlib
from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def _copy_font(app: Sphinx, problem: Exception | None) -> None:
    if problem is None:
        fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
        shutil.copy(fonts / "STIXGeneral.ttf", app.outdir / "_static")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("build-finished", _copy_font)
    return {"parallel_read_safe": True}
