"""docs/compare.md: its output is what comes out, and its blocks run as they stand."""

import re
import shlex
from pathlib import Path

import pytest

from anyseq.cli import main
from snippets import output_of

PAGE = (Path(__file__).parent.parent / "docs" / "compare.md").read_text()


def test_the_output_is_what_comes_out(capsys: pytest.CaptureFixture[str]) -> None:
    (session,) = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)
    command, _, expected = session.partition("\n")
    with pytest.raises(SystemExit):
        main(shlex.split(command.removeprefix("$ anyseq ")))
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
def test_blocks_run_as_they_stand(code: str, tmp_path: Path) -> None:
    assert "Mistral" in output_of(code, tmp_path)
    assert (tmp_path / "compare.png").stat().st_size > 10_000
