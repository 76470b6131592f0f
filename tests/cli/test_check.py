"""`anyseq check` as people type it."""

import json
from pathlib import Path

import pytest
import torch

import anyseq as aq
from cli.test_cli import run

WIDE = aq.Design(3000)
DOCUMENTS = aq.Documents((4000,))
MASK = torch.ones(2100, 2100, dtype=torch.bool)


def near(b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
    return (i - j).abs() <= 2


def test_everything_of_a_design_can_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    asked = (
        "--tokens",
        "8",
        "--prob-map",
        "topk(3)",
        "--no-feedforward",
        "--final-norm",
        "rmsnorm",
    )
    code, out, _ = run(capsys, "check", *asked)
    assert code == 0
    design = aq.Design(8, prob_map=aq.TopK(3), feedforward=False, final_norm="rmsnorm")
    assert out == f"{aq.check(design)}\n"
    assert "topk(3), no feed-forward, final rmsnorm" in out


def test_layers_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("causal & window(3), rope", "causal, none, sinks", "recurrence", "linear(raw), causal")
    options = [part for text in words for part in ("--layer", text)]
    more = ("--block-norm", "pre", "--head", "--domain", "ids", "--readout", "3", "--depth", "4")
    asked = ("check", *options, "--tokens", "8", "--position", "none", *more)
    code, out, _ = run(capsys, *asked)
    assert code == 0
    design = aq.Design(
        8,
        layers=[
            aq.Layer(aq.Causal() & aq.Window(3), aq.Rotary()),
            aq.Layer(aq.Causal(), sinks=True),
            aq.Layer(mixer="recurrence"),
            aq.Layer(aq.Causal(), mixer=aq.LinearAttention(normalised=False)),
        ],
        position=aq.NoPosition(),
        depth=4,
        block_norm="pre",
        head=True,
        domain="ids",
        readout=3,
    )
    assert out == f"{aq.check(design)}\n"


def test_layers_that_are_alike_are_a_design_of_patterns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    layers = ("--layer", "blocks(4), rope", "--layer", "full, rope", "--position", "none")
    patterns = ("--pattern", "blocks(4)", "--pattern", "full", "--position", "rope")
    found = [run(capsys, "check", *asked, "--tokens", "8") for asked in (layers, patterns)]
    assert found[0] == found[1]
    assert found[0][0] == 0


def test_the_folder_of_a_config(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    code, out, _ = run(capsys, "check", str(tmp_path), "--target", "causal")
    assert code == 0
    assert "GPT2 (GPT2Config), 12 layers, 1,024 tokens" in out


def test_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("check", "--pattern", "window(64)|global(0)", "--position", "rope", "--tokens", "256")
    code, out, err = run(capsys, *asked)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert out.startswith("No: it cannot tell equal tokens apart by their places.")
    assert "repair" in out


def test_several_patterns_are_a_cycle(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--pattern", "blocks(4)", "--pattern", "full", "--tokens", "8", "--json")
    code, out, _ = run(capsys, "check", *asked)
    assert code == 0
    assert json.loads(out)["universal"] is True
    expected = aq.check(aq.Design(8, (aq.Blocks(4), aq.Full()))).to_dict()
    assert json.loads(out) == json.loads(json.dumps(expected))


@pytest.mark.parametrize(("position", "expected"), [("absolute", 0), ("rope", 1)])
def test_require_is_a_test(
    capsys: pytest.CaptureFixture[str], position: str, expected: int
) -> None:
    asked = ("--position", position, "--tokens", "8", "--require", "universal")
    code, _, _ = run(capsys, "check", *asked)
    assert code == expected


def test_your_own_mask_mod(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mymasks.py").write_text(
        "def near(b, h, i, j):\n    return (i - j).abs() <= 2\n"
        "def broken(b, h, i, j):\n    raise KeyError('table')\n"
    )
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "check", "mymasks:near", "--tokens", "16")
    assert code == 0
    assert out.startswith("Yes at some width and depth, for every function.")
    code, _, err = run(capsys, "check", "mymasks:broken", "--tokens", "16")
    assert code == 2
    assert err.count("\n") == 1


def test_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "reach.png"
    asked = ("--pattern", "window(3)", "--tokens", "32", "--picture", str(picture))
    code, out, _ = run(capsys, "check", *asked)
    assert code == 0
    assert f"drawn in {picture}" in out
    assert picture.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("check", "--tokens is missing"),
        ("check cli.test_check:near", "cli.test_check:near: --tokens is missing"),
        ("check --tokens 1000000000000", "up to 524,288"),
        ("check --tokens 2049 --picture x.png", "2,049 tokens are too many to draw"),
        ("check cli.test_check:WIDE --picture x.png", "3,000 tokens are too many to draw"),
        ("check cli.test_check:DOCUMENTS --picture x.png", "4,000 tokens are too many to draw"),
        ("check cli.test_check:MASK --picture x.png", "2,100 tokens are too many to draw"),
        ("check --tokens 4 --picture nowhere/x.png", "nowhere is not a folder"),
        ("check --tokens 4 --prob-map topk", "'topk(8)'"),
        ("check --tokens 4 --prob-map topk(0)", "k=0: expected"),
        ("check --tokens 4 --final-norm batchnorm", "final_norm='batchnorm'"),
        ("check tests --no-feedforward --final-norm rmsnorm", "--no-feedforward, --final-norm"),
        ("check tests --head --domain ids --readout last", "--head, --domain, --readout"),
        ("check tests --layer full --block-norm pre", "--layer, --block-norm"),
        ("check --tokens 4 --layer full --pattern full --sinks --prob-map hardmax",
         "--layer together with --pattern, --sinks, --prob-map: each layer says that for itself"),
        ("check --tokens 4 --layer full --no-feedforward", "together with --no-feedforward"),
        ("check --tokens 4 --layer full,up", "layer 'full,up': position 'up': expected one of"),
        ("check --tokens 4 --layer nothing", "or a mixer, one of convolution(3)"),
        ("check --tokens 4 --layer recurrence --position rope", "acts inside attention"),
        ("check --tokens 4 --block-norm both", "block_norm='both'"),
        ("check --tokens 4 --domain words", "domain='words'"),
        ("check --tokens 4 --readout 4", "readout=4"),
        ("check --tokens 4 --readout -1", "readout='-1'"),
        ("plan --tokens 2 --tol 0.5 --lipschitz 1 --layer recurrence", "a layer of recurrence"),
        ("approximate --function sort --tokens 2 --tol 0.5 --layer average", "a layer of average"),
        ("show", "--tokens is missing"),
        ("show --tokens 4 --input 1", "--input: expected the folder of a network"),
        ("show --tokens 4 --export x.onnx", "--export: expected the folder of a network"),
        ("show tests --layer full --tokens 4", "--layer, --tokens would describe a design"),
        ("check tests", "file not found: tests/config.json; expected a config.json or its folder"),
        ("check --tokens 0", "tokens=0"),
        ("check nothing", "expected a config.json or package:name"),
        ("check no:thing --tokens 3", "cannot be imported"),
        ("check missing.json", "missing.json"),
        ("check --tokens 4 --pattern windw(1)", "windw is unknown"),
        ("check --tokens 4 --position up", "position 'up'"),
        ("check --tokens 4 --norm l2", "norm='l2'"),
        ("check --tokens 4 --require all", "require='all'"),
        ("check --tokens 4 --picture x.gif", "--picture x.gif"),
        ("check a:b --pattern full --tokens 4", "leave out either"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], line: str, message: str) -> None:
    code, out, err = run(capsys, *line.split())
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_show_draws_a_design(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "design.png"
    asked = ("--layer", "window(2), rope", "--layer", "recurrence", "--tokens", "16")
    code, out, err = run(capsys, "show", *asked, "--picture", str(picture))
    assert (code, err) == (0, "")
    assert "(window(2), rope positions) then (recurrence)" in out
    assert picture.stat().st_size > 10_000


def config_file(folder: Path, **more: object) -> str:
    file = folder / "llama.json"
    values = {"model_type": "llama", "num_hidden_layers": 2, "max_position_embeddings": 128}
    file.write_text(json.dumps(values | more))
    return str(file)


def test_bos_goes_with_a_config(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = config_file(tmp_path)
    found = {}
    for option in ("", "--bos", "--no-bos"):
        code, out, err = run(capsys, "check", file, *option.split(), "--json")
        assert (code, err) == (0, "")
        found[option] = json.loads(out)
    assert found["--bos"]["subject"].endswith(", BOS, 127 tokens")
    assert found["--no-bos"]["subject"] == found[""]["subject"]
    assert {one["target"] for one in found.values()} == {"causal"}
    code, _, err = run(capsys, "check", "cli.test_check:WIDE", "--bos")
    assert code == 2
    assert "bos=True, but the design has bos=False" in err


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("--pattern window(2) --tokens 8 --depth 4 --position rope", 0),
        ("--pattern window(2) --tokens 8 --depth 3 --position rope", 1),
        ("--pattern window(2) --tokens 8", 0),
        ("--pattern blocks(4) --tokens 8", 1),
        ("--pattern causal --tokens 8", 1),
        ("--pattern causal --tokens 8 --target causal", 0),
    ],
)
def test_reach_can_be_required(
    capsys: pytest.CaptureFixture[str], asked: str, expected: int
) -> None:
    code, _, err = run(capsys, "check", *asked.split(), "--require", "reach")
    assert (code, err) == (expected, "")


def test_reach_of_a_config(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = config_file(tmp_path, model_type="mistral", sliding_window=50)
    asked = ("check", file, "--require", "reach")
    assert run(capsys, *asked)[0] == 1  # 127 places, 2 layers of 49
    assert run(capsys, *asked, "--tokens", "99")[0] == 0


def test_a_model_too_long_to_be_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = config_file(tmp_path, max_position_embeddings=4096)
    picture = tmp_path / "reach.png"
    code, out, err = run(capsys, "check", file, "--picture", str(picture))
    assert (code, out) == (2, "")
    assert "4,096 tokens are too many to draw" in err


def test_a_function_that_makes_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    """As in `anyseq audit package:make_model`."""
    code, out, err = run(capsys, "check", "cli.test_audit:local")
    assert (code, err) == (0, "")
    assert "Transformer, 30 tokens" in out
