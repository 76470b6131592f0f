from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from anyseq.construct.methods.fit.checkpoint import Checkpoint
from anyseq.errors import FileProblem, InvalidArgument

STATE = {"a": torch.arange(5.0), "b": torch.tensor(3)}


def test_what_was_written_is_read(tmp_path: Path) -> None:
    kept = Checkpoint(tmp_path / "new" / "folder", {"seed": 0, "sizes": (1, 2)})
    assert kept.read() is None
    for step in range(2):
        kept.write(STATE | {"step": torch.tensor(step)})
    found = Checkpoint(tmp_path / "new" / "folder", {"seed": 0, "sizes": [1, 2]}).read()
    assert found is not None
    assert found.keys() == {"a", "b", "step"}
    assert torch.equal(found["a"], STATE["a"])
    assert int(found["step"]) == 1
    assert [file.name for file in kept.file.parent.iterdir()] == [kept.file.name]


def test_a_write_that_fails_leaves_the_state_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Checkpoint(tmp_path, {})
    kept.write(STATE)

    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("anyseq.construct.methods.fit.checkpoint.os.replace", full)
    with pytest.raises(FileProblem, match="cannot be written: No space left"):
        kept.write({"a": torch.zeros(1)})
    found = kept.read()
    assert found is not None
    assert torch.equal(found["a"], STATE["a"])


def test_what_is_no_state_of_ours_is_refused(tmp_path: Path) -> None:
    kept = Checkpoint(tmp_path, {"seed": 0})
    kept.write(STATE)
    whole = kept.file.read_bytes()
    kept.file.write_bytes(whole[:-4])
    with pytest.raises(FileProblem, match="cannot be read"):
        kept.read()
    save_file(STATE, kept.file)
    with pytest.raises(FileProblem, match=r"is no anyseq\.checkpoint of version 1"):
        kept.read()
    kept.file.write_bytes(whole)
    with pytest.raises(FileProblem, match="another question: seed is 0 there, 1 here"):
        Checkpoint(tmp_path, {"seed": 1}).read()


def test_places_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileProblem, match="cannot be written"):
        Checkpoint(tmp_path / "file", {}).write(STATE)
    for folder in (3, "a\0b"):
        with pytest.raises(InvalidArgument, match="expected the path of a folder"):
            Checkpoint(folder, {})  # type: ignore[arg-type]
