"""Error messages of other libraries, in one line."""

from __future__ import annotations

_LONGEST = 200


def in_one_line(problem: Exception) -> str:
    """What went wrong, on one line that is not too long."""
    text = " ".join(str(problem).split())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
