"""The three lectures: what they claim, and the command that gives them."""

from pathlib import Path

import pytest

from anyseq.cli import main
from anyseq.lectures import LECTURES, equal_tokens, reverse, sparse
from anyseq.patterns import Window
from pictures_of_pages import blank

PICTURES = {
    1: {"reverse-stages.png", "reverse-stages-window.png"},
    2: {"equal-tokens.png"},
    3: {"reach.png"},
}


@pytest.mark.parametrize("number", LECTURES)
def test_the_command(number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["demo", "--lecture", str(number), "--out", str(tmp_path)])
    assert exit_.value.code == 0
    out = capsys.readouterr().out
    widest = max(len(line) for line in out.splitlines() if str(tmp_path) not in line)
    assert widest <= 80
    assert {file.name for file in tmp_path.iterdir()} == PICTURES[number]
    for file in tmp_path.iterdir():
        assert str(file) in out
        assert not blank(file.read_bytes())


def test_another_number_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["demo", "--lecture", "4"])
    assert exit_.value.code == 2
    assert "--lecture" in capsys.readouterr().err


def test_reverse() -> None:
    for pattern, layers in ((None, 6), (Window(1), 9)):
        result = reverse.network(pattern)
        assert result.size.layers == layers
        assert result.error.upper is not None
        assert reverse.largest_error(result) <= result.error.upper < 1e-10


def test_equal_tokens() -> None:
    """RoPE's line is flat, its loss is that of the best flat line; URPE's line fits."""
    rope, urpe = (equal_tokens.train(one) for one in equal_tokens.POSITIONS.values())
    assert max(rope.line) - min(rope.line) < 1e-9
    assert min(rope.losses) > equal_tokens.FLOOR - 1e-9
    assert rope.losses[-1] == pytest.approx(equal_tokens.FLOOR, abs=1e-3)
    assert all(abs(said - token) < 0.5 for token, said in enumerate(urpe.line))
    assert urpe.losses[-1] < 0.05
    assert urpe.losses[0] == pytest.approx(rope.losses[0], abs=1e-9)
    assert all(one == pytest.approx(1.0) for sums in rope.row_sums for one in sums)
    assert all(max(sums) - min(sums) > 0.5 for sums in urpe.row_sums)


def test_sparse() -> None:
    needed = {line[:20].strip(): line.split()[-1] for line in sparse.reach_table().splitlines()[2:]}
    assert needed == {
        "full": "1",
        "window(4)": "16",
        "window(4) | global": "2",
        "star(1)": "2",
        "strided(8), split": "2",
        "fixed(8), split": "2",
        "logsparse": "4",
        "dilated(3, 4)": "never",
        "blocks(8)": "never",
    }
    assert sparse.effect(15) == 0 < sparse.effect(16)
