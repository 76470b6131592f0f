"""The zoo: what docs/zoo.json says is what is read, and the page is made of it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import transformers

from zoo import DOCS, READ, WRONG, denominator, page, visit

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers warns of default configs
FOUND: dict[str, Any] = json.loads((DOCS / "zoo.json").read_text())
ROWS = {row["type"]: row for row in FOUND["rows"]}
CHOSEN = random.Random(0).sample(
    sorted(kind for kind, row in ROWS.items() if row.get("seconds", 99) < 8), 40
)
same_version = pytest.mark.skipif(
    transformers.__version__ != FOUND["transformers"], reason="the zoo is of another version"
)


@same_version
@pytest.mark.parametrize("kind", CHOSEN)
def test_a_type_is_read_as_the_page_says(kind: str) -> None:
    """Again, with the gradients of a copy of other weights and wider windows beside the Design."""
    found = json.loads(json.dumps(visit(kind)))
    said = dict(ROWS[kind])
    for row in (found, said):
        row.pop("seconds", None)
    assert found == said


@same_version
def test_nine_of_ten_language_models_are_read_and_none_wrongly() -> None:
    assert {kind for kind, row in ROWS.items() if row["language model"]} == denominator()
    outcomes = [ROWS[kind]["outcome"] for kind in denominator()]
    assert outcomes.count(READ) >= 0.9 * len(outcomes)
    assert not any(row["outcome"] == WRONG for row in ROWS.values())


def test_the_page_is_made_of_the_file() -> None:
    assert (DOCS / "zoo.md").read_text() == page(FOUND)
