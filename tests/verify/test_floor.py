"""The checker knows of no method, and can take no step that depends on one."""

from __future__ import annotations

import re
from pathlib import Path

import anyseq.verify
from anyseq.construct.methods import METHODS


def test_no_line_names_a_method() -> None:
    names = "|".join(METHODS)
    for file in Path(anyseq.verify.__file__).parent.glob("*.py"):
        found = re.search(rf'["\'](?:{names})["\']|\b(?:yun|boltzmann)\b', file.read_text())
        assert found is None, (file.name, found)
