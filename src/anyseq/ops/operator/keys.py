"""Patterns under names: an operator of a compiled graph can hold a string, not an object."""

from __future__ import annotations

import json
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakValueDictionary

from anyseq.errors import InvalidArgument
from anyseq.patterns import Causal, Full, Pattern, pattern_from_dict

_LONGEST = 4096  # characters of a description that is used as a key
_HELD = "held "  # before the keys of patterns that only this process knows

_MOST = 1024  # described patterns that are remembered; others are read from their keys again

_KEYS: dict[Pattern, str] = {}
_PATTERNS: dict[str, Pattern] = {}
_DESCRIBED_KEYS: dict[Pattern, str] = {}
_DESCRIBED_PATTERNS: dict[str, Pattern] = {}
# A pattern around somebody's function or mask is known for as long as somebody has it.
_HELD_KEYS: WeakKeyDictionary[Pattern, str] = WeakKeyDictionary()
_HELD_PATTERNS: WeakValueDictionary[str, Pattern] = WeakValueDictionary()


def key_of(pattern: Pattern) -> str:
    """The pattern's description if that is short, else a name that is never used twice; equal
    patterns have equal keys. torch.compile can trace this for a pattern that is kept."""
    key = _KEYS.get(pattern)
    return _new_key(pattern) if key is None else key


def keep(pattern: Pattern) -> None:
    """Keep this pattern, whatever it holds, for the rest of the process."""
    key = key_of(pattern)
    _KEYS[pattern], _PATTERNS[key] = key, pattern


def pattern_of(key: str) -> Pattern:
    """The pattern with this key."""
    pattern = _PATTERNS.get(key) or _DESCRIBED_PATTERNS.get(key) or _HELD_PATTERNS.get(key)
    if pattern is None:
        if key.startswith(_HELD):
            raise InvalidArgument(
                "pattern: this graph was compiled for a pattern, around a function or a mask, that "
                "is gone or belonged to another process; compile it again"
            )
        pattern = pattern_from_dict(json.loads(key))
        _remember(pattern, key)
    return pattern


def combined(key: str, is_causal: bool) -> Pattern:
    """The pattern with this key, Full if the key is empty; and j <= i, if causal."""
    pattern = pattern_of(key) if key else Full()
    if not is_causal or pattern == Causal():
        return pattern
    return Causal() if pattern == Full() else pattern & Causal()


def _new_key(pattern: Pattern) -> str:
    known = _DESCRIBED_KEYS.get(pattern) or _HELD_KEYS.get(pattern)
    if known is not None:
        return known
    try:
        key = json.dumps(pattern.to_dict())
    except InvalidArgument:  # it holds a function
        key = ""
    if 0 < len(key) <= _LONGEST:
        _remember(pattern, key)
        return key
    key = f"{_HELD}{uuid4()}"
    _HELD_KEYS[pattern], _HELD_PATTERNS[key] = key, pattern
    return key


def _remember(pattern: Pattern, key: str) -> None:
    if len(_DESCRIBED_KEYS) >= _MOST:
        _DESCRIBED_KEYS.clear()
        _DESCRIBED_PATTERNS.clear()
    _DESCRIBED_KEYS[pattern], _DESCRIBED_PATTERNS[key] = key, pattern
