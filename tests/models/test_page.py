"""docs/reading.md runs as it stands and prints what it shows."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parent.parent.parent / "docs" / "reading.md").read_text()


def test_the_page_runs_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    parts = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(parts) == 3
    names: dict[str, object] = {}
    for code, shown in parts:
        exec(code, names)
        assert capsys.readouterr().out == shown
