"""Patterns under names: an operator of a compiled graph can hold a string, not an object."""

from __future__ import annotations

import json
from uuid import uuid4

from anyseq.errors import InvalidArgument
from anyseq.patterns import Causal, Full, Pattern, pattern_from_dict

_KEYS: dict[Pattern, str] = {}
_PATTERNS: dict[str, Pattern] = {}
_HELD = "held "  # before the keys of patterns that only this process knows


def key_of(pattern: Pattern) -> str:
    """The pattern's description if it can be written down, else a name that is never given twice;
    equal patterns have equal keys. torch.compile can trace this for a pattern seen before."""
    key = _KEYS.get(pattern)
    if key is None:
        try:
            key = json.dumps(pattern.to_dict())
        except InvalidArgument:
            key = f"{_HELD}{uuid4()}"
        _KEYS[pattern] = key
        _PATTERNS[key] = pattern
    return key


def pattern_of(key: str) -> Pattern:
    """The pattern with this key."""
    pattern = _PATTERNS.get(key)
    if pattern is None:
        if key.startswith(_HELD):
            raise InvalidArgument(
                "pattern: this graph was compiled by another process for a pattern that holds a "
                "callable; compile it again here"
            )
        pattern = _PATTERNS[key] = pattern_from_dict(json.loads(key))
    return pattern


def combined(key: str, is_causal: bool) -> Pattern:
    """The pattern with this key, Full if the key is empty; and j <= i, if causal."""
    pattern = pattern_of(key) if key else Full()
    if not is_causal or pattern == Causal():
        return pattern
    return Causal() if pattern == Full() else pattern & Causal()
