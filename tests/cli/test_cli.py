"""Commands as people type them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import anyseq as aq
from anyseq.cli import main
from anyseq.construct.methods.fit import train


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    captured = capsys.readouterr()
    assert isinstance(stopped.value.code, int)
    return stopped.value.code, captured.out, captured.err


def test_plan(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "plan", "--function", "sort", "--tokens", "3", "--tol", "0.1")
    assert (code, err) == (0, "")
    assert "gather" in out
    assert max(map(len, out.splitlines())) <= 80


def test_plan_as_json_is_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys,
        "plan",
        "--lipschitz",
        "2",
        "--tokens",
        "2",
        "--tol",
        "0.1",
        "--norm",
        "lp",
        "--json",
    )
    plan = aq.plan(aq.Design(2), 1, 0.1, lipschitz=2.0, norm="lp")
    assert code == 0
    assert json.loads(out) == {"candidates": plan.rows(), "refused": plan.refused}


def test_a_curvature_alone_will_do(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--tokens", "2", "--tol", "0.05", "--curvature", "2")
    code, out, _ = run(capsys, "plan", *asked)
    assert code == 0
    assert "for every f of curvature at most 2" in out
    code, plain, _ = run(capsys, "plan", *asked[:4], "--lipschitz", "2", "--json")
    code, curved, _ = run(capsys, "plan", *asked, "--lipschitz", "2", "--json")
    sizes = [json.loads(text)["candidates"][0]["parameters"] for text in (plain, curved)]
    assert sizes[1] < sizes[0] / 10
    code, out, _ = run(capsys, "approximate", "--function", "cosine", "--tokens", "1", "--tol", "1")
    assert code == 0
    assert "D δ² M/8" in out


def test_approximate_and_show(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder, picture = tmp_path / "sorted", tmp_path / "slice.png"
    asked = ("--function", "sort", "--tokens", "2", "--tol", "0.1", "--out", str(folder))
    code, out, err = run(capsys, "approximate", *asked)
    assert (code, err) == (0, "")
    assert "certified" in out
    assert f"saved in {folder}" in out
    code, shown, _ = run(capsys, "show", str(folder), "--picture", str(picture))
    assert code == 0
    assert shown.splitlines()[:5] == out.splitlines()[:5]
    assert picture.stat().st_size > 10_000
    given = ("--input", "0.1,0.7", "--picture", str(picture))
    code, told, err = run(capsys, "explain", str(folder), *given)
    assert (code, err) == (0, "")
    assert "x lies in the cube" in told
    assert max(map(len, told.splitlines()[:-1])) <= 80
    code, old, err = run(capsys, "show", str(folder), *given)
    assert (code, old) == (0, told)
    assert "deprecated" in err
    assert "anyseq explain" in err
    for wrong in ("0.1", "0.1,0.2,0.3", "a,b", ""):
        code, _, err = run(capsys, "explain", str(folder), "--input", wrong)
        assert code == 2
        assert f"--input {wrong}: expected 2 numbers" in err
    code, _, err = run(capsys, "approximate", *asked)
    assert code == 2
    assert "exists already" in err


def test_a_local_feature_gets_small_cells(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = ("--function", "spike", "--tokens", "2", "--tol", "0.05")
    code, out, _ = run(capsys, "plan", *asked)
    assert code == 0
    assert "gather: adaptive: 234 nodes of levels 1 to 6, uniform would need 4,225" in out
    folder = tmp_path / "spike"
    code, out, _ = run(capsys, "approximate", *asked, "--out", str(folder))
    assert code == 0
    assert "234 values of f" in out
    code, told, _ = run(capsys, "explain", str(folder), "--input", "0.1,0.7")
    assert code == 0
    assert "x lies in the box" in told
    code, out, _ = run(capsys, "plan", *asked, "--lipschitz", "18", "--curvature", "400")
    assert code == 0
    assert "adaptive" not in out


def test_designs_and_exports(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A sparse design that learns its positions from gains, exported by name."""
    folder, file = tmp_path / "sparse", tmp_path / "sparse.safetensors"
    asked = ["--tokens", "3", "--tol", "0.5", "--pattern", "window(1)", "--position", "urpe"]
    code, out, _ = run(capsys, "plan", "--lipschitz", "1", *asked)
    assert (code, "gather" in out) == (0, True)
    code, out, _ = run(capsys, "approximate", "--function", "sort", *asked, "--out", str(folder))
    assert code == 0
    assert 'Approximation by method "gather", certified' in out
    code, out, _ = run(capsys, "show", str(folder), "--export", str(file))
    assert (code, file.exists()) == (0, True)
    assert f"exported to {file}" in out
    code, _, err = run(capsys, "show", str(folder), "--export", "net.txt")
    assert code == 2
    assert "--export net.txt: expected a name ending in .onnx, .pt2, .safetensors" in err
    asked[-1] = "relative"
    code, _, err = run(capsys, "approximate", "--function", "sort", *asked)
    assert code == 2
    assert "f_i = i" in err


@pytest.mark.parametrize(
    ("method", "position"), [("sum", "none"), ("boltzmann", "none"), ("partition", "absolute")]
)
def test_methods_are_known_by_name(
    capsys: pytest.CaptureFixture[str], method: str, position: str
) -> None:
    code, out, _ = run(
        capsys, "approximate", "--function", "plus-mean", "--tokens", "2", "--tol", "0.5",
        "--position", position, "--norm", "lp", "--method", method,
    )  # fmt: skip
    assert code == 0
    assert f'Approximation by method "{method}", certified' in out
    assert max(map(len, out.splitlines())) <= 80


def test_approximate_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys, "approximate", "--function", "plus-mean", "--tokens", "2", "--tol", "0.5",
        "--position", "none", "--norm", "lp", "--json",
    )  # fmt: skip
    found = json.loads(out)
    assert code == 0
    assert found["method"] == "boltzmann"
    assert found["design"]["position"] == {"kind": "NoPosition"}
    assert 0 <= found["error"]["lower"] <= found["error"]["upper"] <= 0.5


def test_a_fit_stopped_by_ctrl_c_goes_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "approximate --function waves --tokens 2 --tol 0.1 --norm mean --method fit --checkpoint"
    command = [*line.split(), str(tmp_path / "state")]
    look = train._Training._look

    def stop(self: train._Training, state: train._State) -> None:
        if state.step == 128:
            raise KeyboardInterrupt
        look(self, state)

    with monkeypatch.context() as patch:
        patch.setattr(train, "_SECONDS_BETWEEN_WRITES", 0.0)
        patch.setattr(train._Training, "_look", stop)
        code, out, err = run(capsys, *command)
    assert (code, out, err) == (130, "", "anyseq: stopped\n")
    assert (tmp_path / "state" / "state.safetensors").is_file()
    code, out, err = run(capsys, *command, "--out", str(tmp_path / "network"))
    assert (code, err) == (0, "")
    assert 'method "fit", sampled' in out
    assert max(map(len, out.splitlines()[:-1])) <= 80
    code, out, err = run(
        capsys, "show", str(tmp_path / "network"), "--picture", str(tmp_path / "fit.png")
    )
    assert (code, err) == (0, "")


def test_a_function_of_your_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text("def half(x):\n    return x / 2\n\nnumber = 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    own = ("--tokens", "2", "--tol", "0.2")
    code, out, _ = run(capsys, "approximate", "--function", "mine:half", *own)
    assert code == 0
    assert "unproved: constant estimated" in out
    code, out, _ = run(capsys, "approximate", "--function", "mine:half", "--lipschitz", "0.5", *own)
    assert code == 0
    assert "certified" in out
    code, _, err = run(capsys, "approximate", "--function", "mine:number", *own)
    assert (code, "is not callable" in err) == (2, True)
    code, _, err = run(capsys, "approximate", "--function", "mine:nothing", *own)
    assert (code, "nothing" in err) == (2, True)


@pytest.mark.parametrize("text", ["def f(:", "raise ValueError('no')", "import sys; sys.exit(5)"])
def test_a_module_that_cannot_be_imported(
    text: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "broken.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    code, out, err = run(
        capsys, "approximate", "--function", "broken:f", "--tokens", "2", "--tol", "0.1"
    )
    assert (code, out) == (2, "")
    assert "cannot be imported" in err
    assert err.count("\n") == 1


def test_what_a_function_prints_stays_out_of_the_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "talks.py").write_text("def f(x):\n    print('hello')\n    return x\n")
    monkeypatch.syspath_prepend(tmp_path)
    code, out, err = run(
        capsys, "approximate", "--function", "talks:f", "--tokens", "2", "--tol", "0.5", "--json"
    )
    assert code == 0
    assert json.loads(out)["method"] == "gather"
    assert "hello" in err


def test_stopping_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("anyseq.construct.plan", stop)
    code, _, err = run(capsys, "plan", "--tokens", "2", "--tol", "1", "--lipschitz", "1")
    assert (code, err) == (130, "anyseq: stopped\n")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("approximate --function sort --tokens 3 --tol 0", "tol=0.0"),
        ("approximate --function sort --tokens 0 --tol 0.1", "tokens=0"),
        ("approximate --function sort --tokens 2 --features 0 --tol 0.1", "features=0"),
        ("approximate --function nope --tokens 2 --tol 0.1", "--function nope: expected sort,"),
        ("approximate --function nope:f --tokens 2 --tol 0.1", "No module named 'nope'"),
        ("approximate --function :f --tokens 2 --tol 0.1", "cannot be imported"),
        ("approximate --function sort --tokens 2 --tol 0.1 --seed -1", "seed=-1"),
        ("approximate --function sort --tokens 2 --tol 0.1 --out no/x", "'no' is not a folder"),
        ("show nowhere --picture x.gif", "ending in .png"),
        ("approximate --function sort --tokens 2 --tol 0.1 --budget 10", "the budget is 10"),
        ("approximate --function waves --tokens 6 --tol 0.01 --norm lp", "float64 holds 53"),
        ("approximate --function sort --tokens 2 --tol 0.1 --method yun", "L^p only"),
        ("approximate --function sort --tokens 2 --tol 0.1 --position half", "position 'half'"),
        ("approximate --function sort --tokens 2 --tol 0.1 --position none", "without positions"),
        ("approximate --function sort --tokens two --tol 0.1", "two"),
        ("approximate --tokens 2", "--function"),
        ("plan --tokens 2 --tol 0.1", "give --lipschitz"),
        ("show nowhere", "folder not found: nowhere"),
        ("bench nothing", "nothing"),
        ("bench fit --quick", "--quick is of no use to bench fit: it is for bench methods"),
        ("bench methods --out x", "to bench methods: it is for bench attention and bench check"),
        ("bench adaptive --out x", "--out is of no use to bench adaptive"),
        ("dance", "dance"),
    ],
)
def test_bad_input_is_told_in_a_line_and_exit_code_2(
    line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *line.split())
    assert (code, out) == (2, "")
    first, *reasons = err.splitlines()
    assert first.startswith("anyseq: ")
    assert all(reason.startswith("  ") and len(reason) <= 80 for reason in reasons)
    assert words in " ".join(err.split())


def test_a_refusal_names_a_tolerance_that_can_be_met(capsys: pytest.CaptureFixture[str]) -> None:
    line = "approximate --function waves --tokens 2 --tol 0.1 --budget 2000"
    code, _, err = run(capsys, *line.split())
    assert code == 2
    tol = err.split("tol=")[2].split()[0]
    assert "can be met" in err
    assert run(capsys, *line.replace("0.1", tol).split())[0] == 0


def test_demo(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, "demo", "--out", str(tmp_path / "pictures"))
    assert code == 0
    assert sorted(file.name for file in (tmp_path / "pictures").iterdir()) == [
        "contextual-ids.png",
        "error-against-tolerance.png",
        "slice-gather.png",
        "slice-yun.png",
    ]
    assert str(tmp_path / "pictures") in out
    assert out.startswith("A function f of two tokens is turned into a Transformer")
    assert "anyseq play" in out[out.index("Next:") :]
    assert "anyseq demo --lecture 1" in out[out.index("Next:") :]
    own = [line for line in out.splitlines() if str(tmp_path) not in line]
    assert max(map(len, own)) <= 80


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for command in ("demo", "plan", "approximate", "show", "bench"):
        assert command in out


def test_the_installed_command_leaves_no_traceback() -> None:
    command = [str(Path(sys.executable).parent / "anyseq"), "plan", "--tokens", "0", "--tol", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "anyseq: tokens=0: expected a whole number, 1 or more\n"
