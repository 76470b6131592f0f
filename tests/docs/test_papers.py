"""Places that docs/papers.md names exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "papers.md").read_text()


def test_places_in_the_table_exist() -> None:
    rows = [line.split("|") for line in PAGE.splitlines() if line.startswith("|")][2:]
    assert len(rows) >= 39
    for row in rows:
        for folder, column in (("src/anyseq", row[3]), ("tests", row[4])):
            places = re.findall(r"`([^`]+)`", column)
            assert places
            for place in places:
                assert (ROOT / folder / place).is_file(), place
