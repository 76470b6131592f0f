"""A run that is stopped, killed or shared ends as if it had not been."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from anyseq.errors import FileProblem, TrainingDiverged
from anyseq.experiments import (
    EXPERIMENTS,
    Sight,
    report_text,
    reproduce,
    tables,
    train,
    write_results,
)
from anyseq.experiments.engine import Engine, rate_at
from anyseq.experiments.folder import RunFolder
from experiments.toys import Toy, ToyCell, ToyTask, first, second


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPERIMENTS, "toy", Toy(first(), second()))


def ended(out: Path) -> dict[str, Any]:
    """Everything about the runs that does not depend on the clock."""
    found: dict[str, Any] = {}
    for run in sorted(out.glob("toy/tiny/*/seed-*")):
        (kept,) = run.glob("step-*")
        result = json.loads((run / "result.json").read_text())
        found[run.parent.name] = (
            {file.name: load_file(file) for file in sorted(kept.glob("*.safetensors"))},
            (run / "metrics.jsonl").read_text(),
            {name: result[name] for name in ("accuracy", "loss")},
        )
    return found


def check_equal(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys() == {"first", "second"}
    for run, (files, metrics, result) in one.items():
        assert (metrics, result) == other[run][1:]
        for name, tensors in files.items():
            assert tensors
            for key, tensor in tensors.items():
                assert torch.equal(tensor, other[run][0][name][key]), (run, name, key)


def run(out: Path, watch: Any = lambda sight: None) -> None:
    reproduce("toy", scale="tiny", seeds=1, out=out, watch=watch)


def test_rows(tmp_path: Path) -> None:
    before = torch.random.get_rng_state()
    table = reproduce("toy", scale="tiny", seeds=2, out=tmp_path)
    assert torch.equal(before, torch.random.get_rng_state())
    rows = json.loads((tmp_path / "results.json").read_text())
    assert rows == table.rows == [row for each in tables(tmp_path) for row in each.rows]
    assert {(row["setting"], row["seed"]) for row in rows} == {
        (setting, seed) for setting in ("first", "second") for seed in (0, 1)
    }
    for row in rows:
        assert list(row) == ["experiment", "scale", "setting", "seed", "metric", "value"]
    assert {"accuracy", "loss", "steps_per_second", "data_share"} <= {row["metric"] for row in rows}
    seeds = table.summary("first", "loss")
    assert seeds is not None
    assert (seeds.seeds, seeds.lowest < seeds.highest) == (2, True)


def test_checkpoints_are_written_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a short run at the end only; if no time lies between two, after every step."""
    steps: list[int] = []
    write = RunFolder.write_checkpoint

    def counted(folder: RunFolder, step: int, *rest: Any) -> None:
        steps.append(step)
        write(folder, step, *rest)

    monkeypatch.setattr(RunFolder, "write_checkpoint", counted)
    run(tmp_path / "short")
    assert steps == [12, 6]  # the steps of the two settings
    steps.clear()
    monkeypatch.setattr(train, "_SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    run(tmp_path / "eager")
    assert steps == [*range(1, 13), *range(1, 7)]


def test_what_is_done_is_not_redone(tmp_path: Path) -> None:
    run(tmp_path)
    seen: list[Sight] = []
    run(tmp_path, seen.append)
    assert not seen
    # toy reads no data, so a folder with some changes nothing
    reproduce("toy", scale="tiny", seeds=2, out=tmp_path, data=tmp_path, watch=seen.append)
    assert {sight.seed for sight in seen} == {1}


def test_ctrl_c_stops_between_steps_and_the_run_goes_on(tmp_path: Path) -> None:
    run(tmp_path / "whole")

    def interrupt(sight: Sight) -> None:
        if sight.step in (1, 5):
            signal.raise_signal(signal.SIGINT)

    for _ in range(4):  # at steps 1 and 5 of both runs; the signal counts one step later
        with pytest.raises(KeyboardInterrupt, match="the same command resumes"):
            run(tmp_path / "stopped", interrupt)
    run(tmp_path / "stopped", interrupt)
    check_equal(ended(tmp_path / "whole"), ended(tmp_path / "stopped"))


def test_a_checkpoint_that_a_killed_run_left_behind_goes_with_the_result(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for step in (7, 3):  # the later one first, so that nothing makes it forget the other
        folder.write_checkpoint(step, {"step": step}, {"model": {"weight": torch.zeros(2)}})
        (tmp_path / f"step-{step:08d}").rename(tmp_path / f"kept-{step}")
    for step in (3, 7):
        (tmp_path / f"kept-{step}").rename(tmp_path / f"step-{step:08d}")
    folder.write_result({"loss": 0.0})
    assert [kept.name for kept in folder.folder.glob("step-*")] == ["step-00000007"]
    assert folder.result() == {"loss": 0.0}


def test_kill_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path / "whole")
    monkeypatch.setattr(train, "_SECONDS_BETWEEN_CHECKPOINTS", 0.0)  # mostly writing
    began = time.monotonic()
    run(tmp_path / "timed")
    longest = time.monotonic() - began
    rng, kills, amid = random.Random(0), 0, 0
    for attempt in range(8):  # on a busy machine a run may be over before it is killed amid
        out = tmp_path / f"killed-{attempt}"
        for killed, between in _killed(out, lambda: longest * rng.uniform(0.05, 0.4)):
            kills, amid = kills + killed, amid + between
        run(out)
        check_equal(ended(tmp_path / "whole"), ended(out))
        assert not [*out.rglob(".anyseq-*"), *out.rglob(".*.draft")]
        if kills >= 3 and amid >= 1:
            return
    pytest.fail(f"{kills} kills, {amid} of them between two steps of a run")


def _killed(out: Path, moment: Callable[[], float]) -> Iterator[tuple[bool, bool]]:
    """Start the runs and kill them, until they end: whether each was killed, and amid a run."""
    ends = {"first": first().steps, "second": second().steps}
    reached = dict.fromkeys(ends, 0)
    for _ in range(60):
        child = os.fork()
        if child == 0:
            try:
                run(out)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        time.sleep(moment())
        os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, -signal.SIGKILL), "the traceback is in the captured output"
        amid = False
        for folder in out.glob("toy/tiny/*/seed-0"):
            name = folder.parent.name
            kept = RunFolder(folder).read_checkpoint()  # whole, or there is none
            step = 0 if kept is None else kept[0]["step"]
            assert reached[name] <= step <= ends[name]
            reached[name] = step
            amid |= code == -signal.SIGKILL and 0 < step < ends[name]
            if RunFolder(folder).result() is not None:
                assert step == ends[name]
        if (out / "results.json").exists():
            json.loads((out / "results.json").read_text())
        yield code == -signal.SIGKILL, amid
        if len(list(out.glob("toy/tiny/*/seed-0/result.json"))) == 2:
            return


def test_killed_between_the_last_result_and_the_list_of_results(tmp_path: Path) -> None:
    run(tmp_path)
    results = (tmp_path / "results.json").read_text()
    (tmp_path / "results.json").write_text("[]\n")
    draft = tmp_path / ".results.json.1.draft"
    draft.write_text("[")
    run(tmp_path)
    assert (tmp_path / "results.json").read_text() == results
    assert not draft.exists()


@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_two_processes_are_one(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though they were stopped on the way."""
    script = Path(__file__).parent / "two_processes.py"
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    free = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    done = subprocess.run(
        [*launch, *free, str(script), str(tmp_path / "two"), way],
        env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    monkeypatch.setitem(EXPERIMENTS, "toy", Toy(first(dropout=0.0), second(dropout=0.0)))
    run(tmp_path / "one")
    one, two = ended(tmp_path / "one"), ended(tmp_path / "two")
    assert one.keys() == two.keys() == {"first", "second"}
    for name, (files, metrics, result) in one.items():
        losses = [
            [json.loads(line) for line in text.splitlines()] for text in (metrics, two[name][1])
        ]
        for line, other in zip(*losses, strict=True):
            assert line["loss"] == pytest.approx(other["loss"], rel=1e-5)
        assert result["loss"] == pytest.approx(two[name][2]["loss"], rel=1e-5)
        for file, tensors in files.items():
            torch.testing.assert_close(tensors, two[name][0][file], rtol=1e-3, atol=1e-5)


def test_the_scale_of_mixed_precision_is_kept(tmp_path: Path) -> None:
    def engine() -> Engine:
        made = Engine(EXPERIMENTS["toy"].model(first()), ToyTask(), first(), 0)
        made.accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=1.5 * 2**40)
        return made

    one, other = engine(), engine()
    scaler = one.accelerator.scaler
    scaler.load_state_dict(scaler.state_dict() | {"scale": 2.0**41 / 3, "_growth_tracker": 7})
    folder = RunFolder(tmp_path)
    folder.write_checkpoint(1, {}, one.state())
    kept = folder.read_checkpoint()
    assert kept is not None
    other.restore(kept[1])
    assert other.accelerator.scaler.state_dict() == scaler.state_dict()
    assert other.accelerator.scaler.get_scale() == 2.0**41 / 3


def test_config_has_the_precision(tmp_path: Path) -> None:
    run(tmp_path)
    config = json.loads((tmp_path / "toy/tiny/first/seed-0/config.json").read_text())
    assert (config["mixed_precision"], config["data"]) == ("no", {})


def test_a_failure_beside_the_peer_does_not_lose_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*given: object) -> dict[str, float]:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Toy, "peer", Toy.model)
    monkeypatch.setattr(train, "step_seconds", no_room)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="out of memory"):
            run(tmp_path)
    seen: list[Sight] = []
    run(tmp_path, seen.append)
    assert not seen
    assert {row["setting"] for row in json.loads((tmp_path / "results.json").read_text())} == {
        "first",
        "second",
    }


def test_a_run_may_begin_with_the_weights_of_another(tmp_path: Path) -> None:
    losses: dict[str, float] = {}
    run(tmp_path, lambda sight: losses.setdefault(f"{sight.setting} {sight.step}", sight.loss))
    assert losses["second 1"] < losses["first 2"]
    EXPERIMENTS["toy"] = Toy(second())
    with pytest.raises(FileProblem, match="holds no trained weights"):
        run(tmp_path / "new")


def test_another_configuration_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path)
    monkeypatch.setitem(EXPERIMENTS, "toy", Toy(first(steps=13)))
    with pytest.raises(FileProblem, match="another run: steps is 12 there, 13 here"):
        run(tmp_path)


def test_another_configuration_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reproduce("toy", scale="tiny", seeds=2, out=tmp_path)
    before = (tmp_path / "results.json").read_text()
    assert "left out" not in report_text(tables(tmp_path))
    monkeypatch.setitem(EXPERIMENTS, "toy", Toy(first(steps=13), second()))
    (found,) = tables(tmp_path)
    assert found.settings == ["second"]
    told = "2 runs of another configuration are left out: first, seed 0; first, seed 1."
    assert told in report_text([found])
    write_results(tmp_path)
    assert (tmp_path / "results.json").read_text() == before


@pytest.mark.parametrize(
    "cell",
    [
        replace(first(), scale=float("nan")),
        replace(first(), scale=1e38),  # the loss is a number, its gradient is none
        replace(first(), rate=1e38),  # the weights are none after a step or two
    ],
    ids=["loss", "gradient", "weights"],
)
def test_what_is_no_number(cell: ToyCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPERIMENTS, "toy", Toy(cell))
    with pytest.raises(TrainingDiverged, match=r"toy, first, seed 0: .* is not a number at step"):
        run(tmp_path)
    assert RunFolder(tmp_path / "toy/tiny/first/seed-0").result() is None


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "_SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    run(tmp_path / "whole")
    real, written = os.fsync, [0]

    def full(descriptor: int) -> None:
        written[0] += 1
        if written[0] > 20:
            raise OSError(28, "No space left on device")
        real(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr("anyseq.base.files.os.fsync", full)
        with pytest.raises(FileProblem, match="No space left on device"):
            run(tmp_path / "full")
    run(tmp_path / "full")
    check_equal(ended(tmp_path / "whole"), ended(tmp_path / "full"))


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    run(tmp_path)
    folder = tmp_path / "toy/tiny/first/seed-0"
    (folder / "result.json").unlink()
    (weights,) = folder.glob("step-*/model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(FileProblem, match="is damaged or was changed"):
        run(tmp_path)
    (folder / "config.json").write_text("{")
    with pytest.raises(FileProblem, match="cannot be read"):
        run(tmp_path)


def test_what_a_killed_write_left_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "toy/tiny/first/seed-0"
    (folder / ".anyseq-x").mkdir(parents=True)
    left = [folder / ".config.json.1.draft", tmp_path / ".results.json.1.draft"]
    for draft in left:
        draft.write_text("{")
    run(tmp_path)
    assert not [file for file in (*left, folder / ".anyseq-x") if file.exists()]


@pytest.mark.parametrize("line", ["{", "[1]", '{"loss": 1.0}'])
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "metrics.jsonl").write_text(f'{{"step": 1, "loss": 2.0}}\n{line}\n{{"st')
    with pytest.raises(FileProblem, match=r"metrics\.jsonl', line 2: expected a JSON object"):
        RunFolder(tmp_path).metrics()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    def also(sight: Sight) -> None:
        if sight.step == 3:
            with pytest.raises(FileProblem, match="another process is running this"):
                run(tmp_path)
            seen.append(sight)

    seen: list[Sight] = []
    run(tmp_path, also)
    assert [sight.setting for sight in seen] == ["first", "second"]
    run(tmp_path)  # nothing is held any more


def test_the_rate_rises_and_falls() -> None:
    rates = [rate_at(first(steps=20, rate=1.0), step) for step in range(20)]
    assert rates == [0.5, *[1.0] * 16, 0.75, 0.5, 0.25]
