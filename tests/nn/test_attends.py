"""Our own models attend as their designs declare: audited with the fixture that users have."""

from collections.abc import Callable

import pytest

import anyseq as aq
from anyseq.models import Audit

LOCAL = aq.Causal() & aq.Window(3)
DESIGNS = {
    "causal-rotary": aq.Design(24, aq.Causal(), aq.Rotary()),
    "window-then-causal": aq.Design(24, (LOCAL, aq.Causal()), aq.Rotary()),
    "window-alibi": aq.Design(24, LOCAL, aq.ALiBi()),
    "full-absolute": aq.Design(24),
    "strided-split": aq.Design(24, aq.Strided(4).split(), aq.NoPosition()),
    "causal-fixed": aq.Design(24, aq.Causal() & aq.Fixed(4), aq.Sinusoidal()),
    "star-urpe": aq.Design(24, aq.Star(1), aq.URPE()),
    "causal-urpe": aq.Design(24, aq.Causal(), aq.URPE(aq.T5Bias())),
    "longformer-bias": aq.Design(24, aq.Longformer(2, (0,)), aq.RelativeBias()),
    "bigbird-shaw": aq.Design(24, aq.BigBird(4, 1, 1, 1, seed=0), aq.Shaw(4)),
    "heads": aq.Design(24, aq.PerHead(LOCAL, aq.Causal()), aq.Rotary()),
    "grid": aq.Design(24, aq.Neighbourhood((4, 6), 1), aq.Absolute()),
    "sinks": aq.Design(24, LOCAL, aq.Rotary(), sinks=True),
    "sparsemax": aq.Design(24, aq.Causal(), aq.ALiBi(), prob_map="sparsemax"),
    "convolution": aq.Design(
        24, layers=(aq.Layer(LOCAL, aq.Rotary()), aq.Layer(mixer=aq.Convolution(3)))
    ),
    "recurrence": aq.Design(
        24, layers=(aq.Layer(aq.Causal(), aq.Rotary()), aq.Layer(mixer=aq.Recurrence()))
    ),
}


# A pattern whose rows depend on the number of tokens fits neither padding nor documents.
OF_ONE_LENGTH = ("causal-fixed", "star-urpe", "longformer-bias", "bigbird-shaw", "grid")


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("vocab", [None, 20], ids=["vectors", "ids"])
def test_models_of_designs(
    name: str, vocab: int | None, anyseq_audit: Callable[..., Audit]
) -> None:
    model = aq.nn.Transformer(DESIGNS[name], dim=16, depth=2, heads=2, vocab=vocab)
    found = anyseq_audit(model)
    expected = {"random", "rows", "layers"}
    if name not in OF_ONE_LENGTH:
        expected.add("padding")
    assert {one.name for one in found.checked} >= expected, str(found)
