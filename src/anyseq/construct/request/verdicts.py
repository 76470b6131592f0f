"""What `check` says of designs, asked once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyseq.design import Design

if TYPE_CHECKING:
    from anyseq.verdicts import Verdict


class Verdicts:
    """The verdicts on which a construction rests; each question is put to `check` once."""

    def __init__(self) -> None:
        self._said: dict[tuple[Design, str, str], Verdict] = {}

    def of(self, design: Design, norm: str, target: str = "all") -> Verdict:
        """check(design, norm=norm, target=target)."""
        from anyseq.verdicts import check  # slow to load

        question = (design, norm, target)
        if question not in self._said:
            self._said[question] = check(design, norm=norm, target=target)
        return self._said[question]
