"""What `make docs` uses to build and to check the site."""

import ast
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LINKS = runpy.run_path(str(DOCS / "_ext" / "links.py"))
DESIGNS = DOCS / "_ext" / "designs.py"


def site(folder: Path, **pages: str) -> Path:
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text)
    return folder


def test_links_that_resolve(tmp_path: Path) -> None:
    made = site(
        tmp_path,
        index='<a href="page.html#here">x</a><a href="#top">x</a><p id="top"></p>',
        page='<h1 id="here">x</h1><a href="https://example.org/elsewhere">x</a>',
    )
    assert LINKS["broken"](made) == []


@pytest.mark.parametrize(
    ("link", "says"),
    [
        ('<a href="missing.html">x</a>', "no file"),
        ('<img src="missing.png">', "no file"),
        ('<a href="page.html#nowhere">x</a>', "no anchor"),
        ('<a href="#nowhere">x</a>', "no anchor"),
        ('<script src="https://example.org/a.js"></script>', "from elsewhere"),
        ('<link rel="stylesheet" href="//example.org/a.css">', "from elsewhere"),
        ('<img src="https://example.org/a.png">', "from elsewhere"),
    ],
)
def test_links_that_do_not(link: str, says: str, tmp_path: Path) -> None:
    (problem,) = LINKS["broken"](site(tmp_path, index=link, page="<p></p>"))
    assert says in problem


def test_docs_speak_of_no_page_that_is_not_in_the_site() -> None:
    """Every page stands in some toctree: Sphinx fails otherwise. Here: every howto is linked."""
    index = (DOCS / "index.md").read_text()
    for page in (DOCS / "howto").glob("*.md"):
        assert f"howto/{page.stem}" in index


def test_the_gallery_has_the_well_known_designs() -> None:
    names = [
        first.value
        for node in ast.walk(ast.parse(DESIGNS.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Known"
        and isinstance(first := node.args[0], ast.Constant)
    ]
    assert len(names) >= 16
    assert {"Llama", "BigBird", "Longformer", "ViT", "Swin", "URPE", "NoPE"} <= set(names)
