import gzip
import hashlib
import os
from pathlib import Path

import pytest
import torch

from anyseq.errors import FileProblem, InvalidArgument
from anyseq.experiments import EXPERIMENTS
from anyseq.experiments.data import Data, check_count, standard_library_text
from anyseq.experiments.molecules import Graphs, graphs
from anyseq.experiments.text import corpus
from anyseq.nn import shortest_paths

ROOT = Path(os.environ["ANYSEQ_DATA"]) if "ANYSEQ_DATA" in os.environ else None
TEXT = b"one line\nand another\n"
SHA256 = hashlib.sha256(TEXT).hexdigest()


def test_a_file_is_known_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_bytes(TEXT)
    (tmp_path / "packed.txt.gz").write_bytes(gzip.compress(TEXT))
    for name in ("plain.txt", "packed.txt.gz"):
        assert Data(tmp_path).read(name, SHA256) == TEXT


def test_a_file_that_is_not_what_it_should_be(tmp_path: Path) -> None:
    packed = gzip.compress(TEXT)
    (tmp_path / "changed.txt").write_bytes(TEXT + b" ")
    (tmp_path / "cut.txt.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "torn.txt.gz").write_bytes(packed[:10] + b"\xff\xff" + packed[12:])
    (tmp_path / "other.txt.gz").write_bytes(TEXT)
    with pytest.raises(FileProblem, match="is not the file of this experiment"):
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


def test_a_text_is_split() -> None:
    found = corpus(Data(), 100_000)
    text = standard_library_text(100_000)
    assert (found.train, found.test) == (text[:90_000], text[95_000:])


def test_text_that_is_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="expected WikiText-2"):
        corpus(Data(tmp_path), 1000)
    (tmp_path / "input.txt").write_text("To be")
    with pytest.raises(FileProblem, match="is not the file of this experiment"):
        corpus(Data(tmp_path), 1000)


def test_a_folder_of_folders(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    assert Data(tmp_path).within("inner") == Data(tmp_path / "inner")
    assert Data(tmp_path).within("other") == Data(tmp_path)
    assert Data().within("inner") == Data()


def test_generated_graphs_are_graphs() -> None:
    found = graphs(Data(), 40)
    assert [len(part.y) for part in found[:2]] == [40, 10]
    assert float(found.train.y.mean()) == pytest.approx(0, abs=1e-6)
    assert float(found.train.y.std()) == pytest.approx(1)
    for part in found[:2]:
        assert torch.equal(part.bonds, part.bonds.transpose(1, 2))
        assert not part.bonds.diagonal(dim1=1, dim2=2).any()
        assert int(part.bonds.max()) == 3
        assert not part.bonds[~part.real].any()
        assert int(part.types.max()) < 5
        paths = shortest_paths(part.bonds > 0)
        both = part.real[:, :, None] & part.real[:, None, :]
        assert int(paths[both].max()) <= 20  # connected
        assert part.y.dtype == torch.float32
    graphs.cache_clear()
    assert torch.equal(graphs(Data(), 40).train.y, found.train.y)


def test_both_parts_have_one_unit() -> None:
    """Twice the same graphs have the same y, whichever part they are in."""
    train, test, _ = graphs(Data(), 40)

    def plain(part: Graphs) -> torch.Tensor:
        bonds = part.bonds.tril().long()
        rings = (bonds > 0).sum((1, 2)) - part.real.sum(1) + 1
        value = (part.types[:, :, None] - part.types[:, None, :]).abs() * bonds
        return rings + value.sum((1, 2)) / 5

    y = plain(train)
    torch.testing.assert_close(test.y, (plain(test) - y.mean()) / y.std())


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_a_run_reads(name: str, tmp_path: Path) -> None:
    cell = EXPERIMENTS[name].grid("tiny")[-1]
    synthetic = ("position-identification", "even-tokens", "constant-input", "copying", "overhead")
    if name in synthetic:
        assert EXPERIMENTS[name].sources(cell, Data()) == {}
        assert EXPERIMENTS[name].sources(cell, Data(tmp_path)) == {}
        return
    ((what, sha256),) = EXPERIMENTS[name].sources(cell, Data()).items()
    assert (len(what) > 5, len(sha256)) == (True, 64)
    with pytest.raises(FileProblem, match="--data"):
        EXPERIMENTS[name].sources(cell, Data(tmp_path))


def test_the_built_in_text_is_known_by_its_hash() -> None:
    text = standard_library_text(30_000)
    found = corpus(Data(), 30_000).sources
    assert found == {"Python's standard library": hashlib.sha256(text.encode()).hexdigest()}
    assert found != corpus(Data(), 30_001).sources


def test_what_the_build_left_is_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "_sysconfigdata__linux.py").write_text("built here")
    (tmp_path / "ast.py").write_text("the same everywhere")
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"stdlib": str(tmp_path)})
    assert standard_library_text(8) == "the same"


@pytest.mark.skipif(ROOT is None, reason="ANYSEQ_DATA names no folder with the real data")
def test_the_real_data() -> None:
    assert ROOT is not None
    wikitext = corpus(Data(ROOT / "wikitext2"), 0)
    assert len({*" ".join(wikitext[:2]).split(), "<eos>"}) == 33_278
    shakespeare = corpus(Data(ROOT / "tinyshakespeare"), 0)
    assert [*map(len, shakespeare[:2])] == [1_003_854, 55_770]
    zinc = graphs(Data(ROOT / "zinc"), 0)
    assert zinc.train.types.shape == (10_000, 37)
    assert float(zinc.train.real.sum(1).float().mean()) == pytest.approx(23.12, abs=0.01)
    bonds = (zinc.train.bonds > 0).sum((1, 2)).float().mean() / 2
    assert float(bonds) == pytest.approx(24.86, abs=0.01)
    assert float(zinc.test.y.std()) == pytest.approx(2.017, abs=2e-3)
    for part in zinc[:2]:
        assert int(part.types.max()) < 28
        assert torch.equal(part.bonds, part.bonds.transpose(1, 2))
        assert not part.bonds[~part.real].any()
