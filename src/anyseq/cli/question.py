"""What commands share: turning names on the command line into functions."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyseq.errors import InvalidArgument

if TYPE_CHECKING:
    from anyseq.construct.request.target import Function


def find_function(name: str) -> Function:
    """A built-in function by name, which knows its constants, or the user's own as
    module:callable."""
    from anyseq.construct import FUNCTIONS

    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if ":" not in name:
        raise InvalidArgument(
            f"--function {name}: expected {', '.join(FUNCTIONS)}, or module:callable of your own"
        )
    found: Function = imported("--function", name)
    if not callable(found):
        raise InvalidArgument(f"--function {name}: it is not callable")
    return found


def imported_or_made(command: str, name: str) -> Any:
    """What module:attribute stands for; if that is a function without arguments, what it makes."""
    found = imported(command, name)
    if isinstance(found, type) or not _needs_nothing(found):
        return found
    try:
        return found()
    except Exception as problem:  # it is the caller's, and fails as it likes
        reason = f"{type(problem).__name__}: {problem}"
        raise InvalidArgument(f"{command} {name}: calling it without arguments: {reason}") from None


def _needs_nothing(found: Any) -> bool:
    """Whether it is a function that can be called without arguments: no model, no mask_mod."""
    if not inspect.isroutine(found):
        return False
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    given = inspect.signature(found).parameters.values()
    return all(one.default is not one.empty or one.kind in kinds for one in given)


def imported(option: str, name: str) -> Any:
    """What module:attribute stands for; the current folder is looked into, too."""
    module_name, _, attribute = name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (Exception, SystemExit) as problem:  # a user's module may do anything
        reason = f"{type(problem).__name__}: {problem}"
        raise InvalidArgument(f"{option} {name} cannot be imported: {reason}") from problem
