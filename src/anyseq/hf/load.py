"""`anyseq.hf.from_pretrained`: a model with what `use` had put on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from warnings import warn

import transformers
from transformers import AutoConfig, PreTrainedModel

from anyseq.errors import FileProblem
from anyseq.hf.attach import use
from anyseq.hf.saved import described, expecting_the_gain

_WHERE = ("cache_dir", "revision", "token", "local_files_only", "subfolder")


def from_pretrained(folder: Any, model_class: Any = None, **arguments: Any) -> Any:
    """A model that was saved after `use`, with what `use` had put on it.

    folder: a folder, or a name on the Hub. model_class: the class, or an Auto class, whose
        `from_pretrained` loads it; the one that the config names unless given. arguments: of that
        `from_pretrained`.

    Nothing that was saved is run: classes are transformers' own, or the caller's.
    """
    where = {name: arguments[name] for name in _WHERE if name in arguments}
    config = AutoConfig.from_pretrained(folder, **where)
    put_on = described(config, folder, arguments.get("variant"), **where)
    chosen = _named(config.architectures, folder) if model_class is None else model_class
    with expecting_the_gain():
        loaded = chosen.from_pretrained(folder, **{"attn_implementation": None} | arguments)
    model, *info = loaded if isinstance(loaded, tuple) else (loaded,)  # output_loading_info=True
    del model.config.anyseq  # what is on the model says it from now on
    use(model, **put_on)
    return (model, *info) if info else model


def load(model_class: Any, folder: str | Path, **arguments: Any) -> Any:
    """The old name of `from_pretrained`."""
    warn(
        "anyseq.hf.load(model_class, folder) is now from_pretrained(folder, model_class), and will "
        "be an error in anyseq 0.2",
        DeprecationWarning,
        stacklevel=2,
    )
    return from_pretrained(folder, model_class, **arguments)


def _named(architectures: Any, folder: Any) -> type[PreTrainedModel]:
    """transformers' own class of that name: a config may name anything."""
    name = architectures[0] if isinstance(architectures, list) and architectures else None
    found = getattr(transformers, name, None) if isinstance(name, str) else None
    if not isinstance(found, type) or not issubclass(found, PreTrainedModel):
        raise FileProblem(
            f"folder={str(folder)!r}: its config.json names {name!r} as its architecture, "
            "which this "
            "version of transformers does not have; give its class, "
            "from_pretrained(folder, model_class)"
        )
    return found
