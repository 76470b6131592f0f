"""`anyseq audit` as people type it."""

import json
from pathlib import Path

import pytest
import torch

import anyseq as aq
from cli.test_cli import run

LOCAL = aq.Causal() & aq.Window(3)


def local() -> aq.nn.Transformer:
    torch.manual_seed(0)
    design = aq.Design(30, LOCAL, aq.Rotary())
    return aq.nn.Transformer(design, dim=16, depth=2, heads=2, vocab=20)


def encoder() -> torch.nn.Module:
    return torch.nn.TransformerEncoderLayer(16, 2, batch_first=True)


def broken() -> None:
    raise ValueError("out of order")


def test_a_model_that_attends_as_declared(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "audit", "cli.test_audit:local")
    assert (code, err) == (0, "")
    assert out.startswith("Transformer (a copy in float64, 30 tokens): no fault found\n")
    assert max(map(len, out.splitlines())) <= 80
    asked = ("audit", "cli.test_audit:local", "--declared", "cli.test_audit:LOCAL")
    assert run(capsys, *asked)[0] == 0


def test_a_fault_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("audit", "cli.test_audit:local", "--declared", "causal & window(2)")
    code, out, _ = run(capsys, *asked)
    assert code == 1
    assert "1 fault found" in out
    assert "declared: causal & window(2)" in out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("audit", "cli.test_audit:encoder", "--declared", "causal", "--json")
    code, out, _ = run(capsys, *asked)
    found = json.loads(out)
    assert (code, found["passed"]) == (1, False)
    (fault,) = found["faults"]
    i, j = fault["pair"]
    assert fault["rule"] == "future"
    assert i < j


def test_a_config_and_a_config_that_is_declared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "config.json"
    sizes = {"num_hidden_layers": 2, "hidden_size": 32, "vocab_size": 64}
    file.write_text(json.dumps({"model_type": "mistral", "sliding_window": 8} | sizes))
    code, out, err = run(capsys, "audit", str(file))
    assert (code, err) == (0, "")
    assert out.startswith(
        "MistralModel (a small copy made from the config, 30 tokens): no fault found\n"
    )
    assert run(capsys, "audit", str(tmp_path), "--declared", str(file))[0] == 0
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"model_type": "mistral", "sliding_window": 7} | sizes))
    code, out, _ = run(capsys, "audit", str(tmp_path), "--declared", str(other))
    assert code == 1
    assert "by its own config it has causal & window(7)" in " ".join(out.split())
    code, _, err = run(capsys, "audit", str(tmp_path), "--declared", "causal")
    assert code == 2
    assert "only another config can be declared" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing",), "audit nothing: expected package:name of a model or of a function"),
        (("missing.json",), "missing.json"),
        (("no:thing",), "audit no:thing cannot be imported"),
        (("cli.test_audit:broken",), "calling it without arguments: ValueError: out of order"),
        (("cli.test_audit:LOCAL",), "expected a torch module, or a Hugging Face config"),
        (("cli.test_audit:encoder",), "declared: missing; expected what TransformerEncoderLayer"),
        (("cli.test_audit:encoder", "--declared", "windw(1)"), "pattern 'windw(1)'"),
        (("cli.test_audit:encoder", "--declared", "no:thing"), "--declared no:thing cannot be"),
        (("cli.test_audit:local", "--tokens", "0"), "tokens=0"),
        (("cli.test_audit:local", "--seconds", "0"), "seconds=0"),
        (("cli.test_audit:local", "--layers", "1"), "layers: expected only with a Hugging Face"),
    ],
)
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    code, out, err = run(capsys, "audit", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
