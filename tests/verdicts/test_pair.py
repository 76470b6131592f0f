"""An encoder and a decoder that attends to it, against all pairs of short sequences."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from transformers import BartConfig, T5Config

import anyseq as aq
from anyseq.verdicts.certificate import Encoder
from anyseq.verdicts.pair import with_encoder
from verdicts import naive

Word = tuple[int, ...]

FULL, CAUSAL = aq.Full(), aq.Causal()
ENCODERS = [
    aq.Design(3, FULL, aq.Absolute()),
    aq.Design(3, FULL, aq.RelativeBias()),
    aq.Design(3, FULL, aq.Rotary()),
    aq.Design(3, aq.Window(1), aq.URPE()),
    aq.Design(3, FULL, aq.T5Bias(4, 3)),
    aq.Design(3, FULL, aq.NoPosition()),
    aq.Design(3, aq.Window(1), aq.RelativeBias()),
]
DECODERS = [
    aq.Design(3, CAUSAL, aq.Absolute()),
    aq.Design(3, CAUSAL, aq.Rotary(), bos=True),
    aq.Design(3, CAUSAL, aq.Rotary()),
    aq.Design(3, CAUSAL, aq.ALiBi(), bos=True),
    aq.Design(3, aq.Causal() & aq.Window(1), aq.RelativeBias()),
]


def layer_of(design: aq.Design, words: list[Any], colour: dict[Any, int]) -> dict[Any, Any]:
    """The key of every (word, position) in one layer; words are (other things, tokens)."""
    (layer,), ((mask,),) = design.layer_cycle, naive.masks(design)
    size = design.size
    keys = {}
    for word in words:
        row = [colour[word, i] for i in range(size)]
        for i in range(size):
            keys[word, i] = (row[i], naive._key(layer, i, mask[i], row))
    return keys


def named(keys: dict[Any, Any]) -> dict[Any, int]:
    names = {key: number for number, key in enumerate(dict.fromkeys(keys.values()))}
    return {place: names[key] for place, key in keys.items()}


def confused(encoder: aq.Design, decoder: aq.Design) -> bool:
    """Whether, over two letters, some (x, y_0, ..., y_i) and i look like another to the decoder."""
    words: list[Word] = list(product([0, 1], repeat=3))
    told = naive.start(encoder)
    colour = named({(x, i): (x[i], told[i]) for x in words for i in range(3)})
    for _ in range(8):
        colour = named(layer_of(encoder, words, colour))
    shares = {x: Counter(colour[x, i] for i in range(3)) for x in words}
    read = {x: tuple(sorted((c, Fraction(k, 3)) for c, k in shares[x].items())) for x in words}

    both = list(product(words, words))
    first, bos = naive.start(decoder), int(decoder.bos)
    now = named(
        {((x, y), i): (((2,) * bos + y)[i], first[i])
         for x, y in both for i in range(decoder.size)}
    )  # fmt: skip
    for _ in range(8):
        keys = layer_of(decoder, both, now)
        now = named({(pair, i): (key, read[pair[0]]) for (pair, i), key in keys.items()})
    seen: dict[int, Any] = {}
    for (x, y), i in now:
        if i >= bos:
            content = (x, y[: i - bos + 1], i)
            if seen.setdefault(now[(x, y), i], content) != content:
                return True
    return False


@pytest.mark.parametrize("encoder", ENCODERS, ids=str)
@pytest.mark.parametrize("decoder", DECODERS, ids=str)
def test_against_all_pairs_of_sequences(encoder: aq.Design, decoder: aq.Design) -> None:
    verdict = with_encoder(aq.check(decoder, target="causal"), encoder)
    if verdict.universal is not None:
        assert verdict.universal is not confused(encoder, decoder)
    if verdict.certificate is not None:
        assert verdict.certificate.verify()


def test_both_answers_are_given() -> None:
    answers = [
        with_encoder(aq.check(decoder, target="causal"), encoder).universal
        for encoder in ENCODERS
        for decoder in DECODERS
    ]
    assert Counter(answers)[True] >= 12
    assert Counter(answers)[False] >= 12


def test_configs() -> None:
    bart = aq.check(BartConfig(encoder_layers=2, decoder_layers=2))
    assert bart.universal is True
    words = " ".join(str(bart).split())
    assert words.startswith("Yes at some width, for every function of the input and of the outputs")
    assert "The encoder and the decoder of Bart (BartConfig)" in str(bart)
    t5 = aq.check(T5Config(num_layers=2), tokens=16)
    assert t5.universal is None
    assert ", BOS, 15 tokens" in t5.subject  # the token with which the decoder begins
    without = aq.check(T5Config(num_layers=2), tokens=16, bos=False)
    assert without.universal is False
    assert without.fixes == ()


def test_an_encoder_that_is_none_is_not_confirmed() -> None:
    """A planted error: a certificate for an encoder whose tokens are alike."""
    proof = aq.check(DECODERS[0], target="causal").certificate
    assert proof is not None
    for wrong in (Encoder(ENCODERS[5], rounds=2), Encoder(ENCODERS[5], full_layer=0)):
        assert not replace(proof, encoder=wrong).verify()
