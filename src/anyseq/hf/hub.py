"""A Transformer that can be pushed to and loaded from the Hugging Face Hub."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from huggingface_hub import PyTorchModelHubMixin, snapshot_download

from anyseq.nn import Transformer


class HubTransformer(Transformer, PyTorchModelHubMixin, library_name="anyseq"):
    """`anyseq.nn.Transformer` with `save_pretrained`, `from_pretrained` and `push_to_hub`. Its
    files are those of `Transformer.save`, so either class loads them; no code is run."""

    def _save_pretrained(self, save_directory: Path) -> None:
        # the mixin has made the folder already; ours are written whole or not at all
        with TemporaryDirectory(dir=save_directory) as draft:
            self.save(Path(draft) / "saved")
            for file in (Path(draft) / "saved").iterdir():
                shutil.move(file, save_directory / file.name)

    @classmethod
    def _from_pretrained(
        cls,
        *,
        model_id: str,
        revision: str | None,
        cache_dir: str | Path | None,
        force_download: bool,
        local_files_only: bool,
        token: str | bool | None,
        map_location: str = "cpu",
        **others: Any,
    ) -> Self:
        folder = model_id
        if not Path(model_id).is_dir():
            folder = snapshot_download(
                model_id,
                revision=revision,
                cache_dir=cache_dir,
                force_download=force_download,
                local_files_only=local_files_only,
                token=token,
                allow_patterns=["about.json", "*.safetensors"],
            )
        return cls.load(folder, device=map_location)
