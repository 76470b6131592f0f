"""docs/audit.md: its example prints what stands below it, its table is that of the rules."""

import re
from pathlib import Path

from anyseq.models.faults.rules import RULES
from snippets import output_of

PAGE = (Path(__file__).parents[3] / "docs" / "audit.md").read_text()


def test_the_example_prints_what_stands_below_it(tmp_path: Path) -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[0]
    (expected,) = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)
    out = output_of(code, tmp_path)
    assert _without_sizes(out) == _without_sizes(expected)
    assert max(map(len, out.splitlines())) <= 80


def test_the_table_is_that_of_the_rules() -> None:
    rows = re.findall(r"^\| (.*?) \| (.*?) \| (.*?) \|$", PAGE, flags=re.MULTILINE)[1:]
    assert [(name, risk) for name, _, risk in rows] == [(one.name, one.risk) for one in RULES]


def _without_sizes(text: str) -> str:
    return re.sub(r"\(effect [^)]*\)", "", text)
