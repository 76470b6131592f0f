"""Every experiment: its targets by their definition, its cells, and its judgements."""

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from anyseq.base import generator, seed_of
from anyseq.design import Design
from anyseq.errors import AnyseqError
from anyseq.experiments import EXPERIMENTS, SCALES, Table, overhead, reproduce, step_memory
from anyseq.experiments.constant_input import ConstantInput
from anyseq.experiments.copying import Copying
from anyseq.experiments.data import Data
from anyseq.experiments.engine import rate_at
from anyseq.experiments.even_tokens import EvenTokens
from anyseq.experiments.experiment import Ratio
from anyseq.experiments.overhead import Overhead
from anyseq.experiments.peer import TorchPeer, step_seconds
from anyseq.experiments.position_tasks import by_vocabulary
from anyseq.experiments.step_memory import step_bytes
from anyseq.experiments.tokens import IGNORED, TokenModel
from anyseq.nn import Attention
from anyseq.patterns import Pattern, PerHead, Star, Window
from anyseq.positions import URPE, NoPosition, Position, RelativeBias
from experiments.torch_layers import fill_encoder_layer, shaken


def cell_of(name: str, setting: str) -> Any:
    return next(cell for cell in EXPERIMENTS[name].grid("tiny") if cell.setting == setting)


def targets(name: str, setting: str) -> tuple[list[list[int]], list[list[int]]]:
    cell = cell_of(name, setting)
    batch = EXPERIMENTS[name].task(cell, Data()).batch(5, generator(0))
    return batch["input"].tolist(), batch["target"].tolist()


def test_position_identification_names_places() -> None:
    ids, wanted = targets("position-identification", "urpe")
    assert wanted == [list(range(8))] * 5
    assert {token for row in ids for token in row} <= set(range(10))
    assert len({tuple(row) for row in ids}) == 5


def test_constant_input_is_constant() -> None:
    ids, wanted = targets("constant-input", "rpe")
    assert wanted == [list(range(8))] * 5
    assert all(len(set(row)) == 1 for row in ids)
    assert len({row[0] for row in ids}) > 1


def test_even_tokens_are_every_second_one() -> None:
    ids, wanted = targets("even-tokens", "urpe")
    for row, target in zip(ids, wanted, strict=True):
        # counted from 1, as in the paper: y_i = x_2i
        assert target[:4] == [row[2 * i - 1] for i in range(1, 5)]
        assert target[4:] == [10] * 4


def test_copying_hides_the_second_half() -> None:
    ids, wanted = targets("copying", "star, 2 layers")
    for row, target in zip(ids, wanted, strict=True):
        assert row[0] == 0
        assert 0 not in row[1:]
        assert row[8:] == [8] * 8
        assert target == [IGNORED] * 9 + row[1:8]


def test_copying_has_the_papers_grid() -> None:
    settings = [cell.setting for cell in Copying().grid("paper")]
    assert len(settings) == len(set(settings)) == 32
    assert Copying.published.keys() <= set(settings)
    cell = next(cell for cell in Copying().grid("paper") if cell.setting == "random, 4 layers")
    random, union = (
        connections(Copying().model(replace(cell, dim=8, pattern=pattern)))
        for pattern in ("random", "strided-union")
    )
    assert random == pytest.approx(union, rel=0.05)


def test_random_patterns_are_matched_with_others() -> None:
    cells = {cell.setting: cell for cell in Copying().grid("medium")}
    for setting, cell in cells.items():
        matched, _, other = setting.partition(" as ")
        if matched == "random" and other:
            random, like = (Copying().task(one, Data()).sparsity for one in (cell, cells[other]))
            assert random == pytest.approx(like, abs=1 / cell.tokens)


def connections(model: nn.Module) -> int:
    assert isinstance(model, TokenModel)
    (pattern,) = model.body.design.cycle
    return pattern.edges(256).shape[1]


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("scale", SCALES)
def test_every_grid_can_be_written_down(name: str, scale: str) -> None:
    cells = EXPERIMENTS[name].grid(scale)
    assert len({cell.setting for cell in cells}) == len(cells)
    for cell in cells:
        assert cell.steps > cell.warm_up
        assert rate_at(cell, cell.warm_up) == cell.rate


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_tiny_cell_can_be_trained(name: str) -> None:
    experiment = EXPERIMENTS[name]
    for cell in experiment.grid("tiny")[:: 1 if name != "copying" else 3]:
        task = experiment.task(cell, Data())
        model = experiment.model(cell)
        found = task.loss(model, task.batch(2, generator(0)))
        found.total.backward()
        assert math.isfinite(found.total.item())
        for parameter in model.parameters():
            assert parameter.grad is not None
        scores = task.scores(model, task.held_out()[0])
        assert scores.keys() >= ({"mae"} if name == "zinc" else {"accuracy", "loss"})
        accuracy = scores.get("accuracy", Ratio.of(torch.zeros(1)))
        assert 0 <= float(accuracy.total) <= float(accuracy.items)


ATTENTIONS = (Attention, nn.MultiheadAttention)
SYNTHETIC = ("position-identification", "even-tokens", "constant-input", "copying", "overhead")


TEXTS = ("language-model", "masked-lm", "classification", "translation")


@pytest.mark.parametrize(
    ("name", "scale"), [*product(SYNTHETIC, SCALES), *product(TEXTS, ["tiny"])]
)
def test_targets_are_classes_of_the_model(name: str, scale: str) -> None:
    experiment = EXPERIMENTS[name]
    kinds = {(cell.tokens, cell.vocab, cell.start is None): cell for cell in experiment.grid(scale)}
    for cell in kinds.values():
        task = experiment.task(cell, Data())
        small = replace(cell, depth=1, dim=2 * cell.heads, **plain(cell))
        model = experiment.model(small)
        head = getattr(model, "head", None)
        classes = model.get_parameter("embedding.weight" if head is None else "head.weight").shape
        for batch in (task.batch(2, generator(0)), task.held_out()[0]):
            target = batch["target"][batch["target"] != IGNORED]
            assert 0 <= int(target.min()) <= int(target.max()) < classes[0]


def plain(cell: Any) -> dict[str, str]:
    """A hybrid has more layers than one."""
    return {"mixer": "attention"} if hasattr(cell, "mixer") else {}


@pytest.mark.parametrize(
    "name",
    [
        "position-identification",
        "even-tokens",
        "copying",
        "language-model",
        "masked-lm",
        "classification",
    ],
)
def test_the_peer_has_the_same_shape(name: str) -> None:
    experiment = EXPERIMENTS[name]
    cell = experiment.grid("tiny")[0]
    task, peer = experiment.task(cell, Data()), experiment.peer(cell)
    assert peer is not None
    ids = task.batch(2, generator(0))["input"]
    assert peer(ids).shape == experiment.model(cell)(ids).shape


def test_speed_is_how_often_a_step_is_made() -> None:
    class Slow(TokenModel):
        def forward(self, *given: Any, **named: Any) -> torch.Tensor:
            time.sleep(0.03)
            return super().forward(*given, **named)

    cell = cell_of("copying", "star, 2 layers")
    task = Copying().task(cell, Data())
    quick = Copying().model(cell)
    slow = Slow(Design(cell.tokens), cell.dim, 1, cell.heads, vocab=cell.vocab + 1)
    taken = step_seconds({"quick": quick, "slow": slow}, task, 2, rounds=3)
    assert taken["slow"] > 1.5 * taken["quick"]
    assert 0.03 < taken["slow"] < 0.15  # of one step
    assert taken["batch"] < taken["quick"]


@pytest.mark.parametrize("name", ["language-model", "masked-lm", "classification", "translation"])
def test_the_peer_drops_as_much(name: str) -> None:
    experiment = EXPERIMENTS[name]
    cell = replace(experiment.grid("tiny")[0], dropout=0.25)
    peer = experiment.peer(cell)
    assert peer is not None
    for model in (experiment.model(cell), peer):
        shares = {each.p for each in model.modules() if isinstance(each, nn.Dropout)}
        shares |= {each.dropout for each in model.modules() if isinstance(each, ATTENTIONS)}
        assert shares == {0.25}


def test_the_peer_sees_what_the_pattern_shows() -> None:
    cell = replace(cell_of("copying", "strided-sequential, 1 layer"), dim=8)
    peer = Copying().peer(cell).double()
    ids = torch.randint(8, (1, 16), generator=generator(0))
    changed = ids.clone()
    changed[0, 15] = (ids[0, 15] + 1) % 8
    same = (peer(ids) == peer(changed)).all(-1)[0]
    assert same.tolist() == [place < 11 for place in range(16)]  # Window(4) of token 15


def table(name: str, scale: str, values: Mapping[str, float], metric: str = "accuracy") -> Table:
    rows = [
        {
            "experiment": name,
            "scale": scale,
            "setting": setting,
            "seed": seed,
            "metric": metric,
            "value": value,
        }
        for setting, value in values.items()
        for seed in range(2)
    ]
    return Table(name, scale, rows)


GOOD = {"none": 0.03, "rpe": 0.1, "urpe": 0.995, "absolute": 1.0}
ALL_GOOD = by_vocabulary({position: (value,) * 3 for position, value in GOOD.items()})


@pytest.mark.parametrize(
    ("name", "values", "word"),
    [
        ("position-identification", ALL_GOOD, "same"),
        ("position-identification", {**ALL_GOOD, "urpe": 0.98}, "different"),
        ("position-identification", {**ALL_GOOD, "absolute, vocabulary 1000": 0.98}, "different"),
        ("position-identification", {**ALL_GOOD, "rpe, vocabulary 10000": 0.9}, "different"),
        ("position-identification", GOOD, "undecided"),
        ("constant-input", GOOD | {"none": 1 / 32, "rpe": 1 / 32}, "same"),
        ("constant-input", GOOD | {"none": 1 / 32, "rpe": 1 / 8 + 1e-3}, "different"),
        ("even-tokens", EvenTokens.published, "same"),
        ("even-tokens", {**EvenTokens.published, "rpe": 0.9}, "different"),
        ("even-tokens", {"urpe": 1.0}, "undecided"),
    ],
)
def test_judgements(name: str, values: Mapping[str, float], word: str) -> None:
    assert EXPERIMENTS[name].judge(table(name, "small", values)).word == word
    tiny = word if name == "constant-input" else "undecided"
    assert EXPERIMENTS[name].judge(table(name, "tiny", values)).word == tiny


def test_constant_input_shows_its_lesson_at_the_tiny_scale(tmp_path: Path) -> None:
    """Also the first seed alone, as in the example of docs/experiments.md."""
    found = reproduce("constant-input", scale="tiny", seeds=1, out=tmp_path)
    accuracy = {name: found.summary(name, "accuracy") for name in ("none", "rpe", "urpe")}
    assert [one and one.mean for one in accuracy.values()] == [1 / 8, 1 / 8, 1.0]
    assert ConstantInput().judge(found).reason.startswith("as claimed so far")


def test_a_single_seed_is_not_enough() -> None:
    both = table("even-tokens", "small", EvenTokens.published)
    fewer = [row for row in both.rows if (row["setting"], row["seed"]) != ("rpe", 1)]
    found = EvenTokens().judge(Table("even-tokens", "small", fewer))
    assert found.word == "undecided"
    assert "with a single seed of rpe:" in found.reason


def test_the_judgement_of_copying() -> None:
    values = {
        cell.setting: 0.5 if cell.pattern in ("star", "random") else 0.995
        for cell in Copying().grid("small")
    }
    assert Copying().judge(table("copying", "small", values)).word == "same"
    assert Copying().judge(table("copying", "tiny", values)).word == "undecided"
    for changed in ({"fixed-union, 4 layers": 0.9}, {"star, 4 layers": 1.0}):
        judgement = Copying().judge(table("copying", "small", values | changed))
        assert judgement.word == "different"
        assert next(iter(changed)).split(",")[0] in judgement.reason
    drawn = Copying().judge(table("copying", "small", values | {"random, 4 layers": 1.0}))
    assert (drawn.word, "RANDOM attends to" in drawn.reason) == ("different", True)
    few = {"star, 4 layers": 0.5}
    assert "strided-union" in Copying().judge(table("copying", "small", few)).reason


def test_overhead_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = next(cell for cell in Overhead().grid("tiny") if cell.position == "urpe")
    found_bytes = step_bytes(cell)  # in a process of its own, so only once
    assert found_bytes is not None
    assert 10**5 < found_bytes < 10**9
    asked = {"urpe": 300, "rpe": 200}
    monkeypatch.setattr(overhead, "step_bytes", lambda cell: asked[cell.position])
    found = Overhead().measure(cell, 0)
    assert found["memory_against_rpe"] == 1.5
    assert all(value > 0 for value in found.values())
    monkeypatch.setattr(overhead, "step_bytes", lambda cell: None)
    assert found.keys() - Overhead().measure(cell, 0).keys() == {"memory_against_rpe", "megabytes"}


def test_memory_that_cannot_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = replace(Overhead().grid("tiny")[0], heads=3)  # of 16 features
    with pytest.raises(AnyseqError, match=r"memory of 'rpe, 16 tokens' .*: .*heads") as raised:
        step_bytes(cell)
    assert "\n" not in str(raised.value)
    monkeypatch.setattr(step_memory, "has_high_water_mark", lambda: False)
    assert step_memory._measure(Overhead().grid("tiny")[0]) is None


def test_the_judgement_of_overhead() -> None:
    assert "not run yet" in Overhead().judge(table("overhead", "small", {})).reason
    few = table("overhead", "small", {"urpe, 512 tokens": 1.02}, "time_against_rpe")
    both = table("overhead", "small", {"urpe, 512 tokens": 1.1}, "memory_against_rpe")
    assert Overhead().judge(few).word == "undecided"
    assert Overhead().judge(Table("overhead", "small", [*few.rows, *both.rows])).word == "same"
    slow = table("overhead", "small", {"urpe, 512 tokens": 1.5}, "time_against_rpe")
    assert (
        Overhead().judge(Table("overhead", "small", [*slow.rows, *both.rows])).word == "different"
    )


def test_seeds_of_places_differ() -> None:
    places = [(seed, what, step) for seed in range(3) for what in "ab" for step in range(50)]
    assert len({seed_of(*place) for place in places}) == len(places)
    # torch's generator sees 32 bits only: a seed above those must not be lost
    draws = {
        int(torch.randint(2**40, (1,), generator=generator(seed_of(seed, 0)))) for seed in range(9)
    }
    assert len(draws) == 9


@pytest.mark.parametrize("shared", [True, False], ids=["one table", "a table for each layer"])
@pytest.mark.parametrize("position", [RelativeBias(), URPE(RelativeBias())], ids=str)
@pytest.mark.parametrize("pattern", [Window(2), PerHead(Window(1), Star(1))], ids=str)
def test_the_peer_is_the_same_model(pattern: Pattern, position: Position, shared: bool) -> None:
    """In float64, with weights that all count."""
    design = Design(6, patterns=pattern, position=position)
    shape: dict[str, Any] = {"dim": 8, "depth": 2, "heads": 2, "vocab": 5, "dtype": torch.float64}
    shape["shared_bias"] = shared
    model, peer = TokenModel(design, **shape), TorchPeer(design, **shape)
    shaken(model)
    peer.embedding.load_state_dict(model.embedding.state_dict())
    peer.norm.load_state_dict(model.norm.state_dict())
    for layer in range(2):
        block = model.body.get_submodule(f"blocks.{layer}")
        fill_encoder_layer(peer.layers[layer], block)
    names = [f"blocks.{layer}.mixer.position.table" for layer in range(2)]
    tables = ["bias.position.table"] if shared else names
    for own, name in zip(peer.bias, tables, strict=True):
        own.data = model.body.get_parameter(name).data
    if peer.gain is not None:
        peer.gain.data = model.get_parameter("body.gain.table").data
    ids = torch.randint(5, (3, 6), generator=generator(0))
    # in training, since torch's quick path for evaluation is another
    torch.testing.assert_close(peer.train()(ids), model(ids), rtol=0, atol=1e-12)
    plain = TorchPeer(replace(design, position=NoPosition()), **shape)
    assert not plain.bias
    assert plain.gain is None
