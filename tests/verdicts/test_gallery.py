"""docs/gallery.md says what `check` says."""

from __future__ import annotations

import pytest

import anyseq as aq
from verdicts.gallery import COLUMNS, rows

ROWS = rows()


def test_the_gallery_is_large_and_mixed() -> None:
    assert len({str(design) for _, design, _ in ROWS}) == len(ROWS) >= 60
    for column in COLUMNS:
        answers = {verdicts[column] for _, _, verdicts in ROWS}
        assert {True, False} <= answers


@pytest.mark.parametrize(("line", "design", "verdicts"), ROWS, ids=[row[0] for row in ROWS])
def test_verdicts(
    line: str, design: aq.Design, verdicts: dict[tuple[str, str], bool | None]
) -> None:
    for (norm, target), expected in verdicts.items():
        verdict = aq.check(design, norm=norm, target=target)
        assert verdict.universal is expected, f"{norm}, {target}: {verdict}"
        if verdict.certificate is not None:
            assert verdict.certificate.verify()
