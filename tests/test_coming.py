"""docs/coming.md: each block runs as it stands, and every row of its table has one."""

import re
from pathlib import Path

import pytest

from snippets import output_of

PAGE = (Path(__file__).parent.parent / "docs" / "coming.md").read_text()
SECTIONS = re.split(r"\n## ", PAGE)
BLOCKS = [
    pytest.param(code, id=f"{section.splitlines()[0]}-{number}")
    for section in SECTIONS[1:]
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL))
]


@pytest.mark.parametrize("code", BLOCKS)
def test_blocks_run_as_they_stand(code: str, tmp_path: Path) -> None:
    output_of(code, tmp_path)


def test_every_row_has_its_block() -> None:
    rows = re.findall(r"^\| .*\]\(#([\w-]+)\) \|$", SECTIONS[0], flags=re.MULTILINE)
    titles = [section.splitlines()[0].lower().replace(" ", "-") for section in SECTIONS[1:]]
    assert rows == titles
    assert len(rows) == 12
    assert all("```python" in section for section in SECTIONS[1:])
