"""Examples in docs/reference and docs/theorems print what stands below them, and every public name
has one."""

import doctest
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import anyseq as aq

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = sorted((DOCS / "reference").glob("*.md"))
THEOREMS = sorted((DOCS / "theorems").glob("*.md"))
MODULES = (aq, aq.nn, aq.patterns, aq.positions, aq.hf, aq.errors)


def examples(text: str) -> str:
    return "\n".join(re.findall(r"```pycon\n(.*?)```", text, flags=re.DOTALL))


@pytest.mark.parametrize("page", REFERENCE + THEOREMS, ids=lambda page: page.stem)
def test_examples_print_what_the_page_shows(page: Path) -> None:
    test = doctest.DocTestParser().get_doctest(
        examples(page.read_text()), {}, page.stem, str(page), 0
    )
    problems: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(test, out=problems.append)
    assert results.attempted > 0
    assert not results.failed, "".join(problems)


def sections() -> Iterator[tuple[str, Any, str]]:
    """(heading, the object that it documents, its example), of all reference pages."""
    for page in REFERENCE:
        for section in re.split(r"^## ", page.read_text(), flags=re.MULTILINE)[1:]:
            (dotted,) = re.findall(r"^```\{api\} (\S+)\n```$", section, flags=re.MULTILINE)
            module, name = dotted.rsplit(".", 1)
            yield section.splitlines()[0], getattr(import_module(module), name), examples(section)


def test_every_public_name_has_an_example() -> None:
    shown = {id(thing): (heading, example) for heading, thing, example in sections()}
    for module in MODULES:
        for name in module.__all__:
            thing = getattr(module, name)
            if thing in MODULES:
                continue
            heading, example = shown.get(id(thing), ("", ""))
            assert heading, f"{module.__name__}.{name} has no section in docs/reference"
            assert heading == name
            assert ">>> " in example, f"{name} has no example in docs/reference"


def test_no_section_is_about_a_name_that_is_not_public() -> None:
    public = {id(getattr(module, name)) for module in MODULES for name in module.__all__}
    assert [heading for heading, thing, _ in sections() if id(thing) not in public] == []


@pytest.mark.parametrize("page", THEOREMS, ids=lambda page: page.stem)
def test_theorem_pages_have_a_picture_and_an_example(page: Path) -> None:
    text = page.read_text()
    assert "```{picture} " in text
    assert "## Example" in text


def test_the_index_of_the_theorems_names_all_pages() -> None:
    index = (DOCS / "theorems.md").read_text()
    for page in THEOREMS:
        assert f"](theorems/{page.name})" in index
        assert f"\ntheorems/{page.stem}\n" in index
