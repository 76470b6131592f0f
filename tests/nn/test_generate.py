from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.nn.past import keeps_its_past
from anyseq.patterns import Coarse, Landmarks, Pattern, Residue, Summary, UnevenBlocks
from anyseq.positions import Position
from nn.inputs import shaken

TOKENS = 12
PROMPT = torch.tensor([[1, 2, 3], [4, 0, 6]])


def decoder(design: aq.Design, **options: Any) -> aq.nn.Transformer:
    depth = options.pop("depth", 2)
    made = aq.nn.Transformer(
        design, 8, depth, heads=2, vocab=7, causal=True, dtype=torch.float64, **options
    )
    shaken(made)
    return made


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize(
    "position",
    [
        aq.NoPosition(),
        aq.Absolute(),
        aq.Sinusoidal(),
        aq.Rotary(),
        aq.ALiBi(),
        aq.T5Bias(8, 16, bidirectional=False),
        aq.Shaw(3),
        aq.URPE(),
        aq.URPE(aq.Rotary(), shared=False),
    ],
    ids=str,
)
def test_cached_is_uncached(position: Position, bos: bool) -> None:
    patterns = (aq.Strided(2), aq.PerHead(aq.Window(2), aq.Causal()))
    design = aq.Design(TOKENS, patterns=patterns, position=position, bos=bos, sinks=True)
    net = decoder(design, kv_heads=1)
    ids = net.generate(PROMPT, TOKENS - 3)
    assert torch.equal(ids, net.generate(PROMPT, TOKENS - 3, cache=False))
    assert torch.equal(ids[:, :3], PROMPT)
    assert ids.shape == (2, TOKENS)
    cache = aq.nn.Cache(2, TOKENS + 1)
    with torch.no_grad():
        pieces = [net(part, cache=cache) for part in ids.split([3, *[1] * 5, 4], dim=1)]
    torch.testing.assert_close(torch.cat(pieces, 1), net(ids), rtol=0, atol=1e-12)
    assert cache.length == TOKENS + bos


def test_greedy_ids_are_the_likeliest() -> None:
    net = decoder(aq.Design(TOKENS))
    ids = net.generate(PROMPT, 5)
    assert torch.equal(net(ids)[:, 2:-1].argmax(-1), ids[:, 3:])


def test_hybrids_generate() -> None:
    layers = [
        aq.Layer(mixer=aq.Convolution(7)),
        aq.Layer(mixer="bilinear"),
        aq.Layer(aq.Window(2), mixer="average"),
        aq.Layer(mixer="recurrence"),
        aq.Layer(mixer="linear"),
        aq.Layer(aq.PerHead(aq.Window(2), aq.Full()), mixer=aq.LinearAttention(normalised=False)),
        aq.Layer(position=aq.Rotary(), sinks=True),
        aq.Layer(aq.Window(3), position=aq.URPE()),
    ]
    for order in (layers, layers[::-1]):
        net = decoder(aq.Design(TOKENS, layers=order, bos=True), depth=len(layers))
        ids = net.generate(PROMPT, 9)
        assert torch.equal(ids, net.generate(PROMPT, 9, cache=False))
        cache = aq.nn.Cache(len(layers), TOKENS + 1)
        with torch.no_grad():
            pieces = [net(part, cache=cache) for part in ids.split([3, *[1] * 5, 4], dim=1)]
        torch.testing.assert_close(torch.cat(pieces, 1), net(ids), rtol=0, atol=1e-12)


def test_drawn_ids() -> None:
    net = decoder(aq.Design(TOKENS))

    def draw(seed: int, temperature: float = 1.0, cache: bool = True) -> torch.Tensor:
        rng = torch.Generator().manual_seed(seed)
        return net.generate(PROMPT, 9, temperature=temperature, generator=rng, cache=cache)

    assert torch.equal(draw(0), draw(0))
    assert torch.equal(draw(0), draw(0, cache=False))
    assert any(not torch.equal(draw(0), draw(seed)) for seed in range(1, 5))
    assert torch.equal(draw(0, temperature=1e-6), net.generate(PROMPT, 9))


def test_generation_leaves_the_model_as_it_was() -> None:
    net = decoder(aq.Design(TOKENS), dropout=0.5)
    first = net.generate(PROMPT, 5)
    assert net.training
    assert torch.equal(first, net.generate(PROMPT, 5))
    net.eval()
    net.generate(PROMPT, 5)
    assert not net.training


def test_patterns_without_a_past_generate_without_a_cache() -> None:
    net = decoder(aq.Design(TOKENS, patterns=(aq.Causal(), aq.Star(1))))
    with pytest.raises(InvalidArgument, match=r"cache=True: rows of pattern Star\(radius=1\)"):
        net.generate(PROMPT, 2)
    assert net.generate(PROMPT, 2, cache=False).shape == (2, 5)


def test_the_cache_asks_the_layers_there_are() -> None:
    for pattern in (aq.Star(1), torch.ones(5, 5, dtype=torch.bool)):
        net = decoder(aq.Design(TOKENS))
        given = aq.nn.Attention(8, 2, pattern=pattern, causal=True, dtype=torch.float64)
        net.blocks[1].mixer = given
        with pytest.raises(InvalidArgument, match="cache=True: rows of pattern"):
            net.generate(PROMPT, 2)
    for mixer in ("linear", "average", "bilinear"):
        layers = [aq.Layer(aq.Star(1), mixer=mixer)]
        with pytest.raises(InvalidArgument, match="cache=True: rows of pattern"):
            decoder(aq.Design(TOKENS, layers=layers)).generate(PROMPT, 2)


KEPT = st.one_of(
    st.sampled_from([aq.Full(), aq.Causal(), aq.LogSparse(), Summary(3), UnevenBlocks((1, 2))]),
    st.builds(aq.Window, st.integers(1, 5)),
    st.builds(Residue, st.integers(1, 5)),
    st.builds(aq.Fixed, st.integers(1, 5)),
    st.builds(aq.Strided, st.integers(1, 5)),
    st.builds(Landmarks, st.booleans(), st.booleans(), st.just(((0, 1), (4, 6)))),
    st.just(aq.Global((0,))),
    st.just(aq.BigBird(2, random=0)),
    st.just(aq.FromMask(lambda b, h, i, j: (i + 2 * j) % 3 == 0)),
)
KEPT_COMBINED = st.recursive(
    KEPT,
    lambda part: st.one_of(
        st.builds(lambda a, b: a | b, part, part),
        st.builds(lambda a, b: a & b, part, part),
        st.builds(lambda a: ~a, part),
        st.builds(Coarse, st.integers(1, 3), part),
    ),
    max_leaves=4,
)


@given(KEPT_COMBINED)
def test_rows_that_keep_their_past_do(pattern: Pattern) -> None:
    assert keeps_its_past(pattern)
    longest = (pattern & aq.Causal()).mask(15)
    for n in range(1, 15):
        assert torch.equal((pattern & aq.Causal()).mask(n), longest[:n, :n])


@pytest.mark.parametrize(
    "pattern",
    [
        aq.Star(1),
        aq.Random(2),
        aq.BigBird(2),
        aq.Global((-1,)),
        aq.Documents((2, 3)),
        aq.FromMask(torch.ones(3, 3, dtype=torch.bool)),
        ~aq.Random(2) | aq.Window(1),
        aq.PerHead(aq.Window(1), aq.Random(1)),
    ],
    ids=str,
)
def test_other_patterns_are_not_promised(pattern: Pattern) -> None:
    assert not keeps_its_past(pattern)


def test_bad_arguments_are_named() -> None:
    net = decoder(aq.Design(TOKENS))
    encoder = aq.nn.Transformer(aq.Design(TOKENS), 8, 1, vocab=7)
    with pytest.raises(InvalidArgument, match="causal=False, vocab=7; only a causal model"):
        encoder.generate(PROMPT, 2)
    with pytest.raises(InvalidArgument, match="causal=True, vocab=None"):
        aq.nn.Transformer(aq.Design(TOKENS), 8, 1, causal=True).generate(PROMPT, 2)
    with pytest.raises(InvalidArgument, match="tokens=10 after a prompt of 3 make 13"):
        net.generate(PROMPT, 10)
    with pytest.raises(InvalidArgument, match="tokens=0"):
        net.generate(PROMPT, 0)
    with pytest.raises(InvalidArgument, match=r"prompt of shape \(2, 0\)"):
        net.generate(PROMPT[:, :0], 1)
    with pytest.raises(InvalidArgument, match="temperature=-1"):
        net.generate(PROMPT, 1, temperature=-1)
