"""`anyseq compare` as people type it."""

import json
from pathlib import Path

import pytest

import anyseq as aq
from cli.test_cli import run

DENSE = aq.Design(64, aq.Causal(), aq.Rotary())
FOUR = (
    "causal, rope",
    "causal & window(8), rope",
    "causal & (window(8)|global(0)), rope, bos",
    "3 x causal & window(8) then causal, rope, depth 12",
)


def test_a_table_of_eighty_columns(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "compare", *FOUR, "--tokens", "64", "--target", "causal")
    assert (code, err) == (0, "")
    assert out == f"{aq.compare(*FOUR, tokens=64, target='causal')}\n"
    assert max(map(len, out.splitlines())) <= 80
    for words in FOUR:
        assert words in out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "compare", *FOUR[:2], "--tokens", "64", "--json")
    assert code == 0
    assert json.loads(out) == json.loads(json.dumps(aq.compare(*FOUR[:2], tokens=64).to_dict()))


def test_configs_and_things_of_your_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    asked = (str(tmp_path), "cli.test_compare:DENSE", str(tmp_path / "config.json"))
    code, out, err = run(capsys, "compare", *asked, "--tokens", "64")
    assert (code, err) == (0, "")
    assert out.count("GPT2 (GPT2Config), 12 layers") == 2
    assert "B  causal, rope positions" in out


def test_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "compare.png"
    code, out, _ = run(capsys, "compare", *FOUR, "--tokens", "64", "--picture", str(picture))
    assert code == 0
    assert out.endswith(f"\ndrawn in {picture}\n")
    assert picture.stat().st_size > 10_000
    asked = ("compare", FOUR[0], "--tokens", "64", "--json", "--picture", str(picture))
    assert json.loads(run(capsys, *asked)[1])["subjects"][0]["layers"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), 'nothing to compare: give designs such as "causal, rope"'),
        (("full",), "--tokens is missing"),
        (("full", "windw(1)", "--tokens", "4"), "subject 2: design 'windw(1)'"),
        (("full, up", "--tokens", "4"), "position 'up'"),
        (("nothing", "--tokens", "4"), "there is no file 'nothing'"),
        (("missing.json", "--tokens", "4"), "missing.json"),
        (("no:thing", "--tokens", "4"), "compare no:thing cannot be imported"),
        (("full", "--tokens", "0"), "tokens=0"),
        (("full", "--tokens", "4", "--norm", "l2"), "norm='l2'"),
        (("full", "--tokens", "4", "--target", "some"), "target='some'"),
        (("full", "--tokens", "4", "--seconds", "0"), "seconds=0"),
        (("full", "--tokens", "4", "--picture", "x.gif"), "--picture x.gif"),
        (("full", "--tokens", "4", "--picture", "nowhere/x.png"), "nowhere is not a folder"),
    ],
)
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    code, out, err = run(capsys, "compare", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
