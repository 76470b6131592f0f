"""The tutorials, concepts and lectures run, in order, without a warning; their pictures show
something; what the text says of an output is in it; terms and links lead somewhere."""

import re
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from anyseq.pictures.animation import Animation
from notebooks import DOCS, cells, pages, png, run
from pictures_of_pages import blank

PAGES = {str(page.relative_to(DOCS).with_suffix("")): page for page in pages()}
TAUGHT = [
    page
    for folder in ("tutorials", "concepts", "lectures")
    for page in (DOCS / folder).glob("*.md")
]

SAID = {
    "tutorials/ask": (
        "No: it cannot tell equal tokens apart",
        "no model has less:   15.5",
        "add URPE gains: 0 more connections",
        "Yes at some width and depth, for every function.",
        "No: token 0 reaches token 8,185 after 9 layers, it has 8.",
        "Yes at some width, for every causal function.",
    ),
    "tutorials/audit": (
        "mix: through MixNeighbours, token 20 depends on the later",
        "test_it_attends_as_declared",
        "declared: causal & window(7)",
    ),
    "tutorials/build": ("6 layers (1 with attention)", "treats every order of the tokens alike"),
    "tutorials/train": ("RoPE    3.500  3.500",),
    "concepts/contextual-mapping": (
        "(1, 1) [3465, 3483]",
        "smallest gap: 9",
        "id, token by token: 6, 19.5",
        "id, token by token: 2,502; 2,515.5",
    ),
    "concepts/equal-tokens": (
        "[5., 5., 5.]",
        "[2.8571, 3.5714, 5.0000]",
        "[0.3750, 0.1250, 0.5000]",
        "Rotary       False",
        "URPE         True",
    ),
    "concepts/reach": ("(5, 13, 19, 23, 25) of 25", "blocks     None", "both       2"),
    "concepts/refinement": (
        "round 1: A B B B A\n  round 2: A B C B A\n  round 3: A B C B A",
        "relative bias alone\n  round 1: A A A A A",
        "URPE\n  round 1: A B B B C\n  round 2: A B C D E",
    ),
    "concepts/norms": ("sup norm 1.000, L^2 norm 0.0100", "hits among 1,000 samples: 0"),
    "concepts/certificates": (
        "4 layers until",
        "8 more layers until",
        "proven 0.0547",
        "weights  FAILS",
        "SAMPLED",
    ),
    "lectures/1": ("6 layers (1 with attention)", "window(1)                 2"),
    "lectures/2": ("error at least 3.5", "RoPE    3.500  3.500", "RoPE, head 0  1.000  1.000"),
    "lectures/3": (
        "window(4)                   556          9         2             16",
        "depth 15: 0\n",
    ),
}


@pytest.mark.long  # `make docs` runs them too
@pytest.mark.parametrize("page", PAGES)
def test_a_page(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = run(PAGES[page])
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    for words in SAID.get(page, ()):
        assert words in out
    pictures = [value for value in shown if isinstance(value, Figure)]
    assert not any(blank(png(picture)) for picture in pictures)
    for animation in (value for value in shown if isinstance(value, Animation)):
        assert not blank(png(animation.figure))
        assert len(animation.seconds) > 2
    assert not any(tmp_path.iterdir())  # a build runs pages where they are


def test_all_are_there() -> None:
    assert PAGES.keys() >= SAID.keys()
    for page in SAID:
        text = PAGES[page].read_text()
        assert text.startswith("---\njupytext:")
        assert len(cells(PAGES[page])) == text.count("{code-cell}")


def test_terms_and_links_lead_somewhere() -> None:
    glossary = (DOCS / "concepts" / "glossary.md").read_text()
    (inside,) = re.findall(r"```\{glossary\}\n(.*?)```", glossary, flags=re.DOTALL)
    terms = re.findall(r"^(\S.*)$", inside, flags=re.MULTILINE)
    assert terms == sorted(terms, key=str.lower)
    for page in TAUGHT:
        text = page.read_text()
        for said, meant in re.findall(r"\{term\}`([^`<]+?)(?:\s*<([^`>]+)>)?`", text):
            assert (meant or said).lower() in map(str.lower, terms), f"{page.name}: {meant or said}"
        for target in re.findall(r"\]\(([\w./-]+\.md)\)", text):
            assert (page.parent / target).is_file(), f"{page.name}: {target}"
