"""Maths as MathML, made when the site is built: nothing is fetched when a page is read.

Where a device has no font for maths, a phone for instance, STIX is loaded from the site itself;
matplotlib brings the file.
"""

import shutil
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

SPACE = "http://www.w3.org/1998/Math/MathML"
PRIME = "\N{PRIME}"
ElementTree.register_namespace("", SPACE)


def mathml(latex: str, display: str = "inline") -> str:
    """MathML that looks right without a font that has a table for maths: a prime is a sign after
    its letter, which such a font raises by itself, and bars are as high as a line."""
    root = ElementTree.fromstring(convert(latex, display=display))
    for node in root.iter():
        parts = list(node)
        if node.tag.endswith(("}msup", "}msubsup")) and parts[-1].text == PRIME:
            letter = ElementTree.Element(f"{{{SPACE}}}mrow")
            letter.extend([parts[0], parts[-1]])
            node.tag = f"{{{SPACE}}}" + ("msub" if len(parts) == 3 else "mrow")
            node[:] = [letter, *parts[1:-1]]
        elif node.tag.endswith("}mo") and node.text == "|":
            node.attrib.update(stretchy="false", lspace="0", rspace="0")
    return ElementTree.tostring(root, encoding="unicode")


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def _block(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def _copy_font(app: Sphinx, problem: Exception | None) -> None:
    if problem is None:
        fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
        shutil.copy(fonts / "STIXGeneral.ttf", app.outdir / "_static")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("build-finished", _copy_font)
    return {"parallel_read_safe": True}
