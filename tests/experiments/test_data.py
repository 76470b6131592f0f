import gzip
import hashlib
from pathlib import Path

import pytest

from anyseq.errors import FileProblem, InvalidArgument
from anyseq.experiments.data import Data, check_count, standard_library_text

TEXT = b"one line\nand another\n"
SHA256 = hashlib.sha256(TEXT).hexdigest()


def test_a_file_is_known_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_bytes(TEXT)
    (tmp_path / "packed.txt.gz").write_bytes(gzip.compress(TEXT))
    for name in ("plain.txt", "packed.txt.gz"):
        assert Data(tmp_path).read(name, SHA256) == TEXT
    assert (Data(tmp_path).kind, Data().kind) == ("files", "built-in")


def test_a_file_that_is_not_what_it_should_be(tmp_path: Path) -> None:
    packed = gzip.compress(TEXT)
    (tmp_path / "changed.txt").write_bytes(TEXT + b" ")
    (tmp_path / "cut.txt.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "torn.txt.gz").write_bytes(packed[:10] + b"\xff\xff" + packed[12:])
    (tmp_path / "other.txt.gz").write_bytes(TEXT)
    with pytest.raises(FileProblem, match="is not the file this experiment knows"):
        Data(tmp_path).read("changed.txt", SHA256)
    for name in ("cut.txt.gz", "torn.txt.gz", "other.txt.gz", "missing.txt"):
        with pytest.raises(FileProblem, match=f"{name}' cannot be read"):
            Data(tmp_path).read(name, SHA256)
    with pytest.raises(FileProblem, match="is not a folder"):
        Data(tmp_path / "changed.txt")
    with pytest.raises(InvalidArgument, match=r"expected the folder that holds x\.txt"):
        Data().read("x.txt", SHA256)
    check_count("lines", 2, 2)
    with pytest.raises(FileProblem, match="2 lines, expected 3,000"):
        check_count("lines", 2, 3000)


def test_every_machine_has_some_text() -> None:
    text = standard_library_text(300_000)
    assert len(text) == 300_000
    assert standard_library_text(300_000) == text
    assert "def " in text
    with pytest.raises(FileProblem, match="expected 1,000,000,000; give --data"):
        standard_library_text(1_000_000_000)
