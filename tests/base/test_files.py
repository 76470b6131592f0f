import json
from pathlib import Path

import pytest
import torch

from anyseq.base import read_folder, write_folder, write_text
from anyseq.errors import FileProblem, InvalidArgument

FORMAT = "anyseq.test"


def write(folder: Path) -> None:
    write_folder(
        folder,
        format=FORMAT,
        version=2,
        facts={"name": "n"},
        groups={"a": {"x": torch.arange(6.0).view(2, 3).T}},
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "saved")
    return tmp_path / "saved"


def edit(folder: Path, **changes: object) -> None:
    file = folder / "about.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_round_trip(folder: Path) -> None:
    facts, groups = read_folder(folder, format=FORMAT, version=2)
    assert facts == {"name": "n"}
    assert torch.equal(groups["a"]["x"], torch.arange(6.0).view(2, 3).T)
    assert sorted(file.name for file in folder.iterdir()) == ["a.safetensors", "about.json"]


def test_older_versions_are_read_and_newer_ones_named(folder: Path) -> None:
    read_folder(folder, format=FORMAT, version=3)
    with pytest.raises(FileProblem, match=r"version 2 of anyseq.test.*reads up to version 1"):
        read_folder(folder, format=FORMAT, version=1)


def test_a_changed_byte_is_found(folder: Path) -> None:
    file = folder / "a.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(FileProblem, match="damaged or was changed: its SHA-256"):
        read_folder(folder, format=FORMAT, version=2)


def test_a_truncated_file_is_found(folder: Path) -> None:
    file = folder / "a.safetensors"
    file.write_bytes(file.read_bytes()[:20])
    with pytest.raises(FileProblem, match="damaged"):
        read_folder(folder, format=FORMAT, version=2)


def test_a_file_that_is_no_safetensors_is_refused_even_with_its_hash(folder: Path) -> None:
    import hashlib

    (folder / "a.safetensors").write_bytes(b"nonsense")
    edit(folder, sha256={"a.safetensors": hashlib.sha256(b"nonsense").hexdigest()})
    with pytest.raises(FileProblem, match="is not a safetensors file"):
        read_folder(folder, format=FORMAT, version=2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "has format 'other', expected 'anyseq.test'"),
        ({"version": "2"}, "has version '2'"),
        ({"version": True}, "has version True"),
        ({"version": 0}, "has version 0"),
        ({"facts": None}, "lacks its 'sha256' or 'facts'"),
        ({"facts": {"name": "m"}}, "about.json' is damaged or was changed"),
        ({"sha256": {"../a.safetensors": ""}}, "which is not a file of this format"),
        ({"sha256": {"b.safetensors": ""}}, "is missing"),
    ],
)
def test_other_damage_is_named(folder: Path, change: dict[str, object], message: str) -> None:
    edit(folder, **change)
    with pytest.raises(FileProblem, match=message):
        read_folder(folder, format=FORMAT, version=2)


@pytest.mark.parametrize("text", ["{", '{"a": NaN}', '{"a": ' + "9" * 5000 + "}", "[" * 100_000])
def test_not_json(text: str, folder: Path) -> None:
    (folder / "about.json").write_text(text)
    with pytest.raises(FileProblem, match="not valid JSON"):
        read_folder(folder, format=FORMAT, version=2)


def test_a_number_that_is_none(folder: Path) -> None:
    file = folder / "about.json"
    file.write_text(file.read_text().replace('"n"', "1e999"))
    with pytest.raises(FileProblem, match="damaged or was changed"):
        read_folder(folder, format=FORMAT, version=2)


def test_not_a_saved_folder(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match=r"folder not found: .*nowhere; expected a saved anyseq"):
        read_folder(tmp_path / "nowhere", format=FORMAT, version=2)
    with pytest.raises(FileProblem, match=r"holds no about.json; expected a saved anyseq.test"):
        read_folder(tmp_path, format=FORMAT, version=2)


def test_nothing_is_overwritten(folder: Path) -> None:
    with pytest.raises(FileProblem, match="exists already"):
        write(folder)


def test_no_parent(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="is not a folder"):
        write(tmp_path / "a" / "b")


def test_nothing_half_written_is_left(tmp_path: Path) -> None:
    strided = torch.zeros(4)[::2]
    with pytest.raises(FileProblem, match="cannot be written"):
        write_folder(
            tmp_path / "saved",
            format=FORMAT,
            version=1,
            facts={},
            groups={"a": {"x": strided}, "no/such/folder": {"x": strided}},
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_names_that_no_file_can_have(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="cannot be made"):
        write(tmp_path / name)
    with pytest.raises(FileProblem):
        read_folder(tmp_path / name, format=FORMAT, version=1)


def test_no_path_at_all() -> None:
    with pytest.raises(InvalidArgument, match="folder=None: expected a path"):
        read_folder(None, format=FORMAT, version=1)  # type: ignore[arg-type]


def test_text_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")
    write_text(file, "new")
    assert file.read_text() == "new"
    with pytest.raises(FileProblem, match="cannot be written"):
        write_text(tmp_path / "nowhere" / "a.txt", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
