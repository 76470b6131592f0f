"""Text: its ids, and what language models, masked language models and classifiers are asked."""

import math
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from anyseq.base import generator
from anyseq.errors import FileProblem, InvalidArgument
from anyseq.experiments import EXPERIMENTS, SCALES, reproduce
from anyseq.experiments.classification import Classification, Classify, FillInSentences
from anyseq.experiments.data import Data, standard_library_text
from anyseq.experiments.encoders import EncoderCell, encoder, masked, mixers
from anyseq.experiments.language_model import LanguageCell, LanguageModel, NextToken
from anyseq.experiments.masked_lm import FillIn, MaskedLM
from anyseq.experiments.peer import TorchPeer
from anyseq.experiments.reading import Reading, reading
from anyseq.experiments.sentences import Sentences, sentences
from anyseq.experiments.sparse import COMBINED, DENSE, UNIONS, patterns, sparsity_of
from anyseq.experiments.subwords import MASK, OWN, PAD, Subwords
from anyseq.experiments.tokens import IGNORED, TokenModel
from anyseq.experiments.transformer_xl import DistanceScores
from anyseq.patterns import Full, PerHead, Strided
from anyseq.positions import Sinusoidal
from experiments.torch_layers import fill_encoder_layer, shaken

ROOT = Path(os.environ["ANYSEQ_DATA"]) if "ANYSEQ_DATA" in os.environ else None
LINES = standard_library_text(20_000).splitlines(keepends=True)
SUBWORDS = Subwords(LINES, 300)


@given(st.text())
def test_every_text_has_ids_and_comes_back(text: str) -> None:
    ids = SUBWORDS.stream(text).tolist()
    assert SUBWORDS.text(ids) == text
    assert all(OWN <= token < 300 for token in ids)


def test_the_vocabulary_follows_from_the_text() -> None:
    text = "".join(LINES)
    assert torch.equal(Subwords(LINES, 300).stream(text), SUBWORDS.stream(text))
    assert len(SUBWORDS.stream(text)) < 0.9 * len(text)
    with pytest.raises(InvalidArgument, match="vocab=200: expected 258 or more"):
        Subwords(LINES, 200)


def test_a_reading_is_the_corpus() -> None:
    found = reading(Data(), 50_000, 300)
    assert reading(Data(), 50_000, 300) is found
    assert len(found.test) * found.characters_per_token == pytest.approx(2500)
    train = found.train.tolist()
    for row in found.draw(5, 7, generator(0)).tolist():
        assert any(train[start : start + 7] == row for start in range(len(train)))
    rows = found.test_rows(4, 7, 6)
    assert rows.tolist() == [found.test[start : start + 7].tolist() for start in (0, 6, 12, 18)]


COUNTING = Reading(torch.arange(OWN, 60), torch.arange(OWN, 31), 2.0)


def test_a_language_model_names_the_next_token() -> None:
    task = NextToken(COUNTING, tokens=4, rows=100, sparsity=0.0, real_data=False)
    for batch in (task.batch(5, generator(0)), *task.held_out()):
        assert batch["input"].shape[1] == 4
        assert torch.equal(batch["target"], batch["input"] + 1)
    (held_out,) = task.held_out()
    # each token of the test is asked for once
    assert held_out["target"].flatten().tolist() == list(range(OWN + 1, 31))


def test_perplexity_of_knowing_nothing() -> None:
    found = NextToken(COUNTING, tokens=4, rows=100, sparsity=0.0, real_data=False).finish(
        {"loss": math.log(64)}
    )
    assert found["perplexity"] == pytest.approx(64)
    assert found["bits_per_character"] == pytest.approx(6 / 2)
    assert found["real_data"] == 0.0


def test_masking_as_in_bert() -> None:
    ids = torch.randint(OWN, 1000, (400, 50), generator=generator(0))
    ids[:, 40:] = PAD
    batch = masked(ids, 1000, generator(1))
    fates: Counter[str] = Counter()
    for row, shown, target in zip(
        *(rows.tolist() for rows in (ids, batch["input"], batch["target"])), strict=True
    ):
        for place in range(50):
            if target[place] == IGNORED:
                assert shown[place] == row[place]
                continue
            assert target[place] == row[place] != PAD
            assert shown[place] != PAD
            kept = shown[place] == row[place]
            fates["hidden" if shown[place] == MASK else "kept" if kept else "other"] += 1
    chosen = fates.total()
    assert chosen / (400 * 40) == pytest.approx(0.15, abs=0.01)
    assert {name: count / chosen for name, count in fates.items()} == pytest.approx(
        {"hidden": 0.8, "other": 0.1, "kept": 0.1}, abs=0.03
    )


def test_held_out_masks_are_always_the_same() -> None:
    task = FillIn(COUNTING, tokens=4, vocab=60, rows=5, real_data=False)
    (once,), (again,) = task.held_out(), task.held_out()
    assert torch.equal(once["input"], again["input"])
    assert task.batch(3, generator(0))["input"].shape == (3, 4)


@pytest.mark.parametrize("first", [0, 2])
def test_transformer_xl_by_its_formula(first: int) -> None:
    torch.manual_seed(0)
    n, dim, heads = 5, 8, 2
    position = DistanceScores(dim, heads).double()
    nn.init.normal_(position.shift)
    q = torch.randn(3, heads, n, dim // heads, dtype=torch.float64)
    found = position.bias(q, 0.5, n + first, first)
    assert found.shape == (3, heads, n, n + first)
    for i in range(n):
        for j in range(i + first + 1):
            distance = torch.tensor([float(i + first - j)], dtype=torch.float64)
            wave = position.to_keys(Sinusoidal().table(distance, dim)).view(heads, -1)
            wanted = ((q[:, :, i] + position.shift[:, 0]) * wave).sum(-1) * 0.5
            torch.testing.assert_close(found[:, :, i, j], wanted)


@pytest.mark.parametrize("setting", ["rpe", "urpe"])
def test_the_peer_of_transformer_xl_is_the_same_model(setting: str) -> None:
    (cell,) = (cell for cell in LanguageModel().grid("tiny") if cell.setting == setting)
    model, peer = LanguageModel().model(cell).double(), LanguageModel().peer(cell).double()
    shaken(model)
    assert isinstance(peer, TorchPeer)
    for name in ("embedding", "norm"):
        peer.get_submodule(name).load_state_dict(model.get_submodule(name).state_dict())
    for layer in range(cell.depth):
        block, theirs = model.get_submodule(f"body.blocks.{layer}"), peer.layers[layer]
        fill_encoder_layer(theirs, block)
        position = block.get_submodule("mixer.position")
        theirs.get_submodule("distances").load_state_dict(position.state_dict())
    if peer.gain is not None:
        peer.gain.data = model.get_parameter("body.gain.table").data
    ids = torch.randint(300, (2, 16), generator=generator(0))
    torch.testing.assert_close(peer.train()(ids), model(ids), rtol=0, atol=1e-12)


def test_urpe_starts_at_rpe() -> None:
    cells = {cell.setting: cell for cell in LanguageModel().grid("tiny")}
    rpe, urpe = (LanguageModel().model(cells[name]) for name in ("rpe", "urpe"))
    taken = urpe.load_state_dict(rpe.state_dict(), strict=False)
    assert taken.missing_keys == ["body.gain.table"]
    ids = torch.randint(300, (2, 16), generator=generator(0))
    torch.testing.assert_close(urpe(ids), rpe(ids))


@pytest.mark.parametrize("cell", LanguageModel().grid("tiny"), ids=lambda cell: cell.setting)
@torch.no_grad()
def test_language_models_do_not_see_what_follows(cell: LanguageCell) -> None:
    ids = torch.randint(300, (1, 16), generator=generator(0))
    changed = ids.clone()
    changed[0, 9:] = (ids[0, 9:] + 1) % 300
    for model in (LanguageModel().model(cell).double(), LanguageModel().peer(cell).double()):
        same = model(ids)[0] - model(changed)[0]
        assert float(same[:9].abs().max()) < 1e-12
        assert float(same[9:].abs().amax(-1).min()) > 1e-6


@pytest.mark.parametrize("scale", SCALES)
def test_every_sparsity_is_there(scale: str) -> None:
    cells: list[LanguageCell | EncoderCell] = [
        *LanguageModel().grid(scale),
        *Classification().grid(scale),
    ]
    sparse = [cell for cell in cells if cell.pattern in UNIONS]
    assert {cell.pattern for cell in sparse} == set(UNIONS)
    for cell in sparse:
        (pattern,) = patterns(cell.pattern, cell.tokens, cell.sparsity)
        assert pattern.sparsity(cell.tokens) == pytest.approx(cell.sparsity, abs=0.05)


def test_patterns_by_name() -> None:
    (strided,) = patterns("strided-union", 64, 0.5)
    assert isinstance(strided, Strided)
    assert patterns("strided-sequential", 64, 0.5) == strided.split()
    assert patterns("strided-multihead", 64, 0.5) == (PerHead(*strided.split()),)
    assert patterns(DENSE, 64, 0.0) == (Full(),)
    assert not set(UNIONS) & set(COMBINED)


def test_matched_sparsity() -> None:
    """Of one level, whichever way a pattern is combined, counted from its masks."""
    for name in (*UNIONS, *COMBINED):
        cycle = patterns(name, 64, 0.65, matched=True)
        masks = [head.mask(64) for pattern in cycle for head in pattern.heads()]
        left_out = sum(float((~mask).double().mean()) for mask in masks) / len(masks)
        assert left_out == pytest.approx(0.65, abs=0.01), name
        assert sparsity_of(cycle, 64) == pytest.approx(left_out)


def test_as_many_parameters() -> None:
    """By wider feed-forward halves, up to half of what one more hidden feature adds."""
    attention, *_ = grid = EXPERIMENTS["masked-lm"].grid("medium")
    wanted = sum(each.numel() for each in encoder(attention).parameters())
    for cell in grid:
        if cell.setting.startswith("hybrid"):
            found = sum(each.numel() for each in encoder(cell).parameters())
            assert abs(found - wanted) <= cell.depth * (2 * cell.dim + 1) / 2
            assert cell.hidden > 4 * cell.dim


def test_hybrids_begin_with_convolutions() -> None:
    cell = next(cell for cell in MaskedLM().grid("small") if cell.setting == "hybrid-1")
    assert mixers(cell) == ["sepconv", "attention", "attention", "attention"]
    assert mixers(replace(cell, mixer="bproj")) == ["bproj"] * 4


@pytest.mark.parametrize("mixer", ["bproj", "sepconv"])
def test_what_is_mixed_does_not_drown_the_tokens(mixer: str) -> None:
    torch.manual_seed(0)
    model = encoder(EncoderCell("", 1, 1, 1.0, mixer=mixer))
    found = [value for name, value in model.state_dict().items() if "token_weight" in name]
    assert len(found) == 4
    for weight in found:
        assert float(weight.std()) == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize("cell", Classification().grid("tiny")[::2], ids=lambda cell: cell.setting)
def test_padding_is_not_seen(cell: EncoderCell) -> None:
    model = encoder(cell)
    assert isinstance(model, TokenModel)
    ids = torch.randint(OWN, 300, (2, 16), generator=generator(0))
    ids[:, 10:] = PAD
    before = model(ids, key_mask=ids != PAD)[:, :10]
    features = model.embedding(ids).masked_fill((ids == PAD)[..., None], 7.0)
    x = model.norm(model.body(features, key_mask=ids != PAD))[:, :10]
    torch.testing.assert_close(x @ model.embedding.weight.T, before)


def test_a_sentence_is_the_mean_of_its_tokens() -> None:
    ids = torch.tensor([[5, 6, PAD], [7, 8, 9]])
    part = Sentences(ids, torch.tensor([1, 0]))
    task = Classify(part, part, real_data=False)

    def model(ids: torch.Tensor, key_mask: torch.Tensor) -> torch.Tensor:
        assert torch.equal(key_mask, ids != PAD)
        return torch.stack([ids.float(), -ids.float()], dim=-1)

    (batch,) = task.held_out()
    found = task.logits(model, batch)  # type: ignore[arg-type]
    assert found.tolist() == [[[5.5, -5.5]], [[8.0, -8.0]]]
    assert batch["target"].tolist() == [[1], [0]]
    scores = task.scores(model, batch)["accuracy"]  # type: ignore[arg-type]
    assert (float(scores.total), float(scores.items)) == (1, 2)


def test_lines_of_packages() -> None:
    train, test = sentences(Data(), 300, 64)
    for part in (train, test):
        assert int(part.labels.sum()) * 2 == len(part.labels)
        assert bool((part.ids[:, 0] != PAD).all())
        real = part.ids != PAD
        assert bool((real[:, :-1] | ~real[:, 1:]).all())  # padding comes last
    assert len(train.ids) > 8 * len(test.ids) > 800
    rows = {tuple(row) for row in train.ids[:, :40].tolist()}
    again = sum(tuple(row) in rows for row in test.ids[:, :40].tolist())
    assert again < 0.02 * len(test.ids)  # lines may begin alike, none is in both


def test_fine_tuning_takes_over_all_but_the_head() -> None:
    first, second = Classification().grid("tiny")[:2]
    assert second.start == first.setting
    assert isinstance(Classification().task(first, Data()), FillInSentences)
    assert isinstance(Classification().task(second, Data()), Classify)
    shapes = [
        {name: value.shape for name, value in Classification().model(cell).state_dict().items()}
        for cell in (first, second)
    ]
    head = {"head.weight": (2, 16), "head.bias": (2,)}
    assert shapes[1] == shapes[0] | head


def test_a_classifier_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = Classification().grid("tiny")[:2]
    monkeypatch.setattr(Classification, "grid", lambda self, scale: cells)
    table = reproduce("classification", scale="tiny", seeds=1, out=tmp_path)
    assert table.settings == ["attention, pre-training", "attention"]
    assert table.means("accuracy").keys() == {"attention"}
    assert table.means("pretraining_accuracy").keys() == {"attention, pre-training"}
    assert set(table.means("real_data").values()) == {0.0}
    assert len(table.means("real_data")) == 2


def test_a_folder_without_sentences(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match=r"train\.tsv\.gz' cannot be read"):
        sentences(Data(tmp_path), 300, 16)


@pytest.mark.skipif(ROOT is None, reason="ANYSEQ_DATA names no folder with the real data")
def test_the_real_text() -> None:
    train, test = sentences(Data(ROOT), 1024, 32)
    assert (len(train.ids), len(test.ids)) == (67_349, 872)
    assert int(train.labels.sum()) == 37_569
    found = reading(Data(ROOT), 1_000_000, 1024)
    assert found.characters_per_token > 2
