from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.nn.past import counts_offsets_only, keeps_its_past
from anyseq.nn.sampling import Sampling
from anyseq.nn.writer import make_cache
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


FORGETTING = [
    aq.Window(2),
    aq.Window(2) | aq.Global((0, 1)),
    aq.Blocks(4) & aq.Causal(),
    aq.PerHead(aq.Window(1), aq.Window(3) | aq.Global((2,))),
    aq.Dilated(2, 2),
]


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize(
    "position",
    [aq.Absolute(), aq.Rotary(), aq.ALiBi(), aq.RelativeBias(), aq.Shaw(3), aq.URPE()],
    ids=str,
)
@pytest.mark.parametrize("pattern", FORGETTING, ids=str)
def test_what_is_forgotten_is_not_missed(pattern: Pattern, position: Position, bos: bool) -> None:
    design = aq.Design(150, patterns=pattern, position=position, bos=bos, sinks=True)
    net = decoder(design, kv_heads=1)
    ids = torch.randint(7, (2, 150), generator=torch.Generator().manual_seed(0))
    cache = make_cache(net)
    with torch.no_grad():
        pieces = [net(part, cache=cache) for part in ids.split([70, *[1] * 20, 30, *[1] * 30], 1)]
    torch.testing.assert_close(torch.cat(pieces, 1), net(ids), rtol=0, atol=1e-11)
    forgets = counts_offsets_only(pattern) or not isinstance(position, aq.Shaw)
    assert (cache.layers[0].held is not None) == forgets


def test_memory_grows_with_the_window_only() -> None:
    layers = [aq.Layer(aq.Window(8)), aq.Layer(mixer="recurrence"), aq.Layer(mixer="linear")]
    design = aq.Design(131_072, layers=layers[:2], position=aq.NoPosition())
    net = decoder(design)
    cache = make_cache(net)
    with torch.no_grad():
        for _ in range(200):
            net(PROMPT[:, :1], cache=cache)
    token = 8 * 2 * 8  # bytes of a key, or of a value, of both rows
    assert cache.layers[0].bytes <= 2 * token * (2 * 8 + 20)
    assert cache.layers[1].bytes <= token * 40
    assert cache.length == 200


def ragged(lengths: tuple[int, ...], side: str) -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(0)
    longest = max(lengths)
    ids = torch.randint(7, (len(lengths), longest), generator=rng)
    place = torch.arange(longest)
    length = torch.tensor(lengths)[:, None]
    return ids, place < length if side == "right" else place >= longest - length


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    "pattern",
    [aq.Causal(), aq.Window(2), aq.Window(1) | aq.Global((0,)), aq.Blocks(3)],
    ids=str,
)
def test_padded_prompts_are_continued_as_they_are_alone(
    pattern: Pattern, side: str, cache: bool
) -> None:
    ids, real = ragged((5, 2, 1), side)
    for position in (aq.Absolute(), aq.Sinusoidal(), aq.Rotary(), aq.URPE()):
        net = decoder(aq.Design(TOKENS, patterns=pattern, position=position))
        found = net.generate(ids, 6, key_mask=real, cache=cache)
        assert found.shape == (3, 11)
        for row in range(3):
            prompt = ids[row][real[row]][None]
            alone = net.generate(prompt, 6)[0]
            assert torch.equal(found[row, -len(alone) :], alone)


def test_padding_that_cannot_be_left_out_is_refused() -> None:
    ids, real = ragged((3, 2), "left")
    with pytest.raises(InvalidArgument, match="bos=True"):
        decoder(aq.Design(TOKENS, bos=True)).generate(ids, 2, key_mask=real)
    with pytest.raises(InvalidArgument, match="rows depend on the number of tokens"):
        decoder(aq.Design(TOKENS, patterns=aq.Star(1))).generate(ids, 2, key_mask=real, cache=False)
    with pytest.raises(InvalidArgument, match="a row has no real token"):
        decoder(aq.Design(TOKENS)).generate(ids, 2, key_mask=torch.zeros(2, 3).bool())
    with pytest.raises(InvalidArgument, match=r"key_mask of dtype torch\.int64"):
        decoder(aq.Design(TOKENS)).generate(ids, 2, key_mask=real.long())


def test_rows_end_with_a_stop_id() -> None:
    net = decoder(aq.Design(TOKENS))
    free = net.generate(PROMPT, 9)
    stop = int(free[0, 5])
    found = net.generate(PROMPT, 9, stop_ids=[stop])
    for row in range(2):
        new = free[row, 3:].tolist()
        wanted = new[: new.index(stop) + 1] if stop in new else new
        filled = wanted + [stop] * (found.shape[1] - 3 - len(wanted))
        assert found[row, 3:].tolist() == filled[: found.shape[1] - 3]
    every = net.generate(PROMPT, 9, stop_ids=range(7))
    assert every.shape == (2, 4)


@pytest.mark.parametrize("stop_ids", [[7], [0, -1], 3, ["</s>"]])
def test_a_stop_id_that_is_never_written_is_refused(stop_ids: Any) -> None:
    net = decoder(aq.Design(TOKENS))
    with pytest.raises(InvalidArgument, match="expected a list of ids from 0 to 6"):
        net.generate(PROMPT, 2, stop_ids=stop_ids)
    with pytest.raises(InvalidArgument, match="expected a list of ids from 0 to 6"):
        net.stream(PROMPT, 2, stop_ids=stop_ids)


def test_a_stream_gives_the_same_ids() -> None:
    net = decoder(aq.Design(TOKENS, patterns=aq.Window(2)), dropout=0.5)
    new = []
    for ids in net.stream(PROMPT, 5):
        assert net.training
        assert torch.is_grad_enabled()
        new.append(ids)
    assert torch.equal(torch.stack(new, 1), net.generate(PROMPT, 5)[:, 3:])
    with pytest.raises(InvalidArgument, match="tokens=10 after"):
        net.stream(PROMPT, 10)


@pytest.mark.parametrize("cache", [True, False])
def test_beams_find_the_likeliest_sequence(cache: bool) -> None:
    """With as many beams as there are sequences, that is sure."""
    net = decoder(aq.Design(TOKENS, patterns=aq.Window(2)))
    found = net.generate(PROMPT, 3, beams=49, cache=cache)
    every = torch.cartesian_prod(*[torch.arange(7)] * 3)
    for row in range(2):
        ids = torch.cat([PROMPT[row].expand(len(every), -1), every], 1)
        with torch.no_grad():
            log = net(ids).log_softmax(-1)[:, 2:-1]
        total = log.gather(2, every[..., None]).sum((1, 2))
        assert torch.equal(found[row], ids[total.argmax()])
    assert torch.equal(net.generate(PROMPT, 5, beams=1), net.generate(PROMPT, 5))


def test_beams_that_end_keep_their_score() -> None:
    net = decoder(aq.Design(TOKENS))
    stop = 3
    found = net.generate(PROMPT, 3, beams=60, stop_ids=[stop])
    for row in range(2):
        best, most = None, -torch.inf
        for length in (1, 2, 3):
            every = torch.cartesian_prod(*[torch.arange(7)] * length).view(-1, length)
            inside = (every[:, :-1] == stop).any(1)
            ends = every[:, -1] == stop
            every = every[~inside & (ends | (length == 3))]
            ids = torch.cat([PROMPT[row].expand(len(every), -1), every], 1)
            with torch.no_grad():
                log = net(ids).log_softmax(-1)[:, 2:-1]
            total = log.gather(2, every[..., None]).sum((1, 2))
            if total.max() > most:
                best, most = every[total.argmax()].tolist(), float(total.max())
        assert best is not None
        new = found[row, 3:].tolist()
        assert new[: len(best)] == best
        assert set(new[len(best) :]) <= {stop}


def test_beams_with_padding_and_a_forgetting_cache() -> None:
    ids, real = ragged((5, 2), "left")
    net = decoder(aq.Design(60, patterns=aq.Window(2), position=aq.Absolute()))
    found = net.generate(ids, 50, key_mask=real, beams=3)
    assert torch.equal(found, net.generate(ids, 50, key_mask=real, beams=3, cache=False))
    alone = net.generate(ids[1:, 3:], 50, beams=3)
    assert torch.equal(found[1, 3:], alone[0])


@given(
    logits=st.lists(
        st.integers(-9, 9).map(lambda one: one / 2), min_size=2, max_size=9, unique=True
    ),
    top_k=st.none() | st.integers(1, 10),
    top_p=st.none() | st.floats(0.01, 1.0),
    min_p=st.none() | st.floats(0.01, 1.0),
    temperature=st.floats(0.1, 3.0),
)
def test_only_ids_that_are_left_are_drawn(
    logits: list[float],
    top_k: int | None,
    top_p: float | None,
    min_p: float | None,
    temperature: float,
) -> None:
    given_logits = torch.tensor([logits], dtype=torch.float64)
    found = Sampling(temperature, top_k, top_p, min_p).probabilities(given_logits)[0]
    p = (given_logits[0] / temperature).softmax(-1)
    order = sorted(range(len(p)), key=lambda one: -float(p[one]))
    before = 0.0
    for rank, one in enumerate(order):
        left = (top_k is None or rank < top_k) and (top_p is None or before < top_p)
        left = left and (min_p is None or float(p[one]) >= min_p * float(p[order[0]]))
        if top_p is None or abs(before - top_p) > 1e-9:
            assert (float(found[one]) > 0) == left
            assert not left or float(found[one]) == float(p[one])
        before += float(p[one])


def test_ids_are_drawn_by_torch_unless_a_generator_is_given() -> None:
    net = decoder(aq.Design(TOKENS))
    torch.manual_seed(0)
    one = net.generate(PROMPT, 9, temperature=1.0)
    torch.manual_seed(0)
    assert torch.equal(one, net.generate(PROMPT, 9, temperature=1.0))
    greedy = net.generate(PROMPT, 9)
    assert torch.equal(net.generate(PROMPT, 9, temperature=1.0, top_k=1), greedy)
    assert torch.equal(net.generate(PROMPT, 9, temperature=1.0, min_p=1.0), greedy)
    for options, message in (
        ({"top_k": 3}, "top_k: temperature=0"),
        ({"temperature": 1.0, "top_p": 0.0}, r"top_p=0\.0"),
        ({"temperature": 1.0, "beams": 2}, "beams=2 with temperature"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            net.generate(PROMPT, 2, **options)
