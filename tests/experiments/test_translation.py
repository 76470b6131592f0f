"""Translation: BLEU, the pairs, what is asked, the model and its peer, the judgement."""

import math
import operator
import os
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path

import pytest
import torch

from anyseq.base import generator
from anyseq.experiments import Table, reproduce
from anyseq.experiments.bleu import bleu, bleu_counts
from anyseq.experiments.data import Data
from anyseq.experiments.experiment import Ratio
from anyseq.experiments.sentence_pairs import encodings, joined, passages, sentence_pairs, words
from anyseq.experiments.sparse import COMBINED, DENSE, UNIONS
from anyseq.experiments.tokens import IGNORED
from anyseq.experiments.translation import Translation, TranslationCell
from anyseq.experiments.translator import END, START, TorchTranslator, Translator
from experiments.torch_layers import (
    fill_attention,
    fill_encoder_layer,
    fill_feedforward,
    fill_own_attention,
    shaken,
)

ROOT = Path(os.environ["ANYSEQ_DATA"]) if "ANYSEQ_DATA" in os.environ else None
CELLS = {cell.setting: cell for cell in Translation().grid("tiny")}


def means(counts: Mapping[str, Ratio]) -> dict[str, float]:
    return {name: float(one.total) / float(one.items) for name, one in counts.items()}


def test_bleu_by_its_formula() -> None:
    counts = bleu_counts(["the the the the the the the"], ["The cat: on the, the mat."])
    assert (float(counts["precision_1"].total), float(counts["precision_1"].items)) == (2, 7)
    found = bleu(means(bleu_counts(["a b c d e"], ["a b c d f g"])))
    assert found == pytest.approx((4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25 * math.exp(1 - 6 / 5))
    assert bleu(means(bleu_counts(["a b c d e."], ["a b c d e ."]))) == pytest.approx(1)
    longer = bleu(means(bleu_counts(["a b c d e"], ["a b c d"])))  # no penalty for saying more
    assert longer == pytest.approx((4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)
    for nothing in ("", "x", "a b c"):
        assert bleu(means(bleu_counts([nothing], ["a b c d"]))) == 0.0


def test_bleu_of_a_corpus_adds_up() -> None:
    found, wanted = ["a b c d e", "f g h i"], ["a b c d f", "x f g h i j"]
    whole = bleu_counts(found, wanted)
    parts = [bleu_counts([one], [other]) for one, other in zip(found, wanted, strict=True)]
    for name, ratio in whole.items():
        for side in (0, 1):
            assert float(ratio[side]) == sum(float(part[name][side]) for part in parts)


SIGNS: Mapping[str, Callable[[Fraction, Fraction], Fraction]] = {
    "plus": operator.add,
    "minus": operator.sub,
    "times": operator.mul,
    "over": operator.truediv,
}


def value_after(text: str, letters: Mapping[str, Fraction]) -> Fraction:
    """Of an expression with operators after what they take."""
    stack: list[Fraction] = []
    for word in text.split():
        if word in letters:
            stack.append(letters[word])
        else:
            second, first = stack.pop(), stack.pop()
            stack.append(SIGNS[word](first, second))
    (found,) = stack
    return found


def test_generated_pairs_mean_the_same() -> None:
    # numbers far apart, so that no two expressions are equal by chance, and none is 0
    letters = {letter: Fraction(7**i + 1, 11) for i, letter in enumerate("abcdefghijkl")}
    for source, target in sentence_pairs(Data()).test:
        try:
            wanted = eval(source, {}, dict(letters))
        except ZeroDivisionError:
            continue
        assert value_after(target, letters) == wanted


def test_no_sentence_is_in_both_parts() -> None:
    train, test, _ = sentence_pairs(Data())
    for side in (0, 1):
        assert not {pair[side] for pair in train} & {pair[side] for pair in test}
    assert 0.04 < len(test) / len(train) < 0.06
    sentence_pairs.cache_clear()
    assert sentence_pairs(Data())[:2] == (train, test)


def test_pairs_that_share_a_sentence_are_in_one_group() -> None:
    pairs = [
        ("Go.", "Geh!"),
        ("Hi!", "Hallo."),
        ("Leave.", "Geh."),
        ("LEAVE", "Weg!"),
        ("Up", "Go"),
    ]
    first, hi, third, fourth, up = joined(pairs, words)
    assert first == third == fourth
    assert len({first, hi, up}) == 3
    assert len(set(joined(pairs, str))) == 5
    assert words(" It's  GREAT, Tom…") == "it s great tom"


def test_sentences_are_read_together() -> None:
    pairs = [("A.", "a."), ("B.", "b."), ("C.", "c."), ("D.", "d."), ("E.", "e.")]
    assert passages(pairs, 2) == [("A. B.", "a. b."), ("C. D.", "c. d.")]
    assert passages(pairs, 1) == pairs


def test_what_is_asked() -> None:
    task = Translation().task(CELLS[DENSE], Data())
    (held_out,) = task.held_out()
    for batch in (task.batch(6, generator(0)), held_out):
        for shown, target in zip(batch["input"].tolist(), batch["target"].tolist(), strict=True):
            length = target.index(END)
            assert shown == [START, *target[:length], *[END] * (23 - length)]
            assert target[length + 1 :] == [IGNORED] * (23 - length)
            assert IGNORED not in target[:length]
    subwords = task.encodings.subwords
    pairs = dict(sentence_pairs(Data()).test)
    for source, target in zip(
        held_out["source"].tolist(), held_out["target"].tolist(), strict=True
    ):
        read = subwords.text(source[: source.index(END)])
        assert subwords.text(target[: target.index(END)]) == pairs[read]


def test_scores_of_a_perfect_translator() -> None:
    task = Translation().task(CELLS[DENSE], Data())
    (batch,) = task.held_out()

    def model(source: torch.Tensor, ids: torch.Tensor | None = None) -> torch.Tensor:
        written = task.encodings.test.written[batch["row"]]
        return written if ids is None else 99.0 * torch.nn.functional.one_hot(written, 300)

    found = task.finish(means(task.scores(model, batch)))  # type: ignore[arg-type]
    assert found["bleu"] == pytest.approx(1)
    assert (found["accuracy"], found["real_data"]) == (1.0, 0.0)
    assert found["perplexity"] == pytest.approx(1)


def translator(cell: TranslationCell) -> tuple[Translator, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    model = Translation().model(cell).double()
    assert isinstance(model, Translator)
    shaken(model)
    source, ids = torch.randint(2, 300, (2, 3, cell.tokens), generator=generator(0))
    return model, source, ids


@pytest.mark.parametrize("setting", CELLS)
@torch.no_grad()
def test_only_what_is_written_is_seen(setting: str) -> None:
    model, source, ids = translator(CELLS[setting])
    changed = ids.clone()
    changed[:, 9:] = 2 + (ids[:, 9:] - 1) % 298
    moved = (model(source, ids) - model(source, changed)).abs().amax(-1)
    assert float(moved[:, :9].max()) < 1e-12
    assert float(moved[:, 9:].min()) > 1e-6
    changed = source.clone()
    changed[:, 5] = 2 + (source[:, 5] - 1) % 298
    assert float((model(source, ids) - model(changed, ids)).abs().amax(-1).min()) > 1e-9


@pytest.mark.parametrize("setting", CELLS)
@torch.no_grad()
def test_a_translation_is_the_likeliest_token_by_token(setting: str) -> None:
    model, source, _ = translator(CELLS[setting])
    model.embedding.weight[END] *= 3.0  # some should end early
    found = model(source)
    told = torch.cat([torch.full((3, 1), START), found], 1)
    likeliest = model(source, told)[:, :-1].argmax(-1)
    for row, wanted in zip(found.tolist(), likeliest.tolist(), strict=True):
        end = row.index(END) + 1 if END in row else len(row)
        assert row[:end] == wanted[:end]


@pytest.mark.parametrize("setting", CELLS)
@torch.no_grad()
def test_the_peer_is_the_same_model(setting: str) -> None:
    cell = CELLS[setting]
    model, source, ids = translator(cell)
    peer = Translation().peer(cell).double()
    assert isinstance(peer, TorchTranslator)
    shared = {
        name: value
        for name, value in model.state_dict().items()
        if not name.startswith(("encoder", "decoder"))
    }
    peer.load_state_dict(shared, strict=False)
    for layer in range(cell.depth):
        fill_encoder_layer(
            peer.get_submodule(f"encoder.{layer}"), model.get_submodule(f"encoder.blocks.{layer}")
        )
        theirs, ours = peer.decoder[layer], model.decoder[layer]
        assert isinstance(theirs, torch.nn.TransformerDecoderLayer)
        written, read = ours.get_submodule("written"), ours.get_submodule("read")
        fill_own_attention(theirs.self_attn, written.get_submodule("mixer"))
        cross = read.get_submodule("mixer")
        k, v = cross.get_parameter("kv_proj.weight").chunk(2)
        q, q_bias, o = map(cross.get_parameter, ("q_proj.weight", "q_proj.bias", "o_proj.weight"))
        fill_attention(theirs.multihead_attn, q, q_bias, k, v, o)
        fill_feedforward(theirs, read.get_submodule("feedforward"))  # type: ignore[arg-type]
        norms = (
            written.get_submodule("mixer_norm"),
            read.get_submodule("mixer_norm"),
            read.get_submodule("feedforward_norm"),
        )
        for norm, own in zip((theirs.norm1, theirs.norm2, theirs.norm3), norms, strict=True):
            norm.load_state_dict(own.state_dict())
    torch.testing.assert_close(peer(source, ids), model(source, ids))


def table(values: Mapping[str, float], real: float = 1.0) -> Table:
    rows = [
        {"setting": setting, "seed": seed, "metric": metric, "value": number}
        for setting, value in values.items()
        for seed in range(3)
        for metric, number in (("bleu", value + 1e-3 * seed), ("real_data", real))
    ]
    return Table("translation", "small", rows)


def test_judgements() -> None:
    values = dict.fromkeys((DENSE, *UNIONS, *COMBINED), 0.1)
    claimed = values | {"strided-union": 0.2, "fixed-union": 0.15}
    assert Translation().judge(table(claimed)).word == "same"
    assert Translation().judge(table(claimed, real=0.0)).word == "undecided"
    assert Translation().judge(table(values)).word == "undecided"
    assert Translation().judge(table(claimed | {"star": 0.18})).word == "different"
    assert Translation().judge(table({"star": 0.1})).word == "undecided"


def test_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Translation, "grid", lambda self, scale: [CELLS["star"]])
    found = reproduce("translation", scale="tiny", seeds=1, out=tmp_path)
    assert {"bleu", "accuracy", "perplexity", "speed_against_torch"} <= set(found.metrics)
    assert 1.0 < found.means("perplexity")["star"] < 300.0


@pytest.mark.skipif(ROOT is None, reason="ANYSEQ_DATA names no folder with the real data")
def test_the_real_sentences() -> None:
    train, test, _ = sentence_pairs(Data(ROOT))
    assert len(train) + len(test) == 50_001
    assert 0.04 < len(test) / len(train) < 0.06
    for side in (0, 1):
        assert not {words(pair[side]) for pair in train} & {words(pair[side]) for pair in test}
    found = encodings(Data(ROOT), 1024, 28, 2)
    assert len(found.train.source) > 0.98 * len(train) // 2  # hardly any is too long
