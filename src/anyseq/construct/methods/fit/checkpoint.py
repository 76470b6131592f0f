"""The state of long work: one file in a folder, replaced whole or not at all.

    folder/state.safetensors    tensors; in its header, JSON: format, version, and the question

Reading executes nothing. A state resumes only the question that it belongs to.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from anyseq.errors import FileProblem, InvalidArgument

_FILE = "state.safetensors"
_FORMAT, _VERSION = "anyseq.checkpoint", 1


class Checkpoint:
    """Where a question's work is kept.

    question: JSON-ready; all that the work depends on, except what `read` hands back.
    """

    def __init__(self, folder: str | Path, question: Mapping[str, Any]) -> None:
        if not isinstance(folder, (str, Path)) or "\0" in str(folder):
            raise InvalidArgument(f"checkpoint={folder!r}: expected the path of a folder")
        self.file = Path(folder) / _FILE
        # through JSON, which is how it comes back
        self.question = json.loads(json.dumps(question))

    def write(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Replace the state."""
        header = {"format": _FORMAT, "version": _VERSION, "question": self.question}
        draft = self.file.with_name(f".{_FILE}.draft")
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            save_file(dict(tensors), draft, {"anyseq": json.dumps(header, sort_keys=True)})
            os.replace(draft, self.file)
        except (OSError, SafetensorError) as problem:
            raise FileProblem(f"checkpoint {str(self.file)!r} cannot be written: {problem}") from (
                problem
            )

    def read(self) -> dict[str, torch.Tensor] | None:
        """The state, or None if there is none yet."""
        try:
            if not self.file.exists():
                return None
            with safe_open(self.file, framework="pt") as stream:
                header = json.loads((stream.metadata() or {}).get("anyseq", "{}"))
                # cloned: fresh memory is aligned, and what rounds may depend on that
                tensors = {name: stream.get_tensor(name).clone() for name in stream.keys()}  # noqa: SIM118
        except (OSError, SafetensorError, ValueError) as problem:
            raise FileProblem(f"checkpoint {str(self.file)!r} cannot be read: {problem}") from (
                problem
            )
        if (header.get("format"), header.get("version")) != (_FORMAT, _VERSION):
            raise FileProblem(
                f"checkpoint {str(self.file)!r} is no {_FORMAT} of version {_VERSION}"
            )
        found = header.get("question")
        if found != self.question:
            differs = _difference(found, self.question)
            raise FileProblem(
                f"checkpoint {str(self.file)!r} belongs to another question{differs}; ask that "
                "one again, or choose a new folder"
            )
        return tensors


def _difference(found: Any, wanted: Mapping[str, Any]) -> str:
    if not isinstance(found, dict):
        return ""
    for name, value in wanted.items():
        if found.get(name) != value:
            return f": {name} is {found.get(name)!r} there, {value!r} here"
    return ""
