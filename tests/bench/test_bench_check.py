"""`anyseq bench check` measures what it says; the figures themselves are for quiet machines."""

from anyseq.bench import check as bench
from anyseq.cli.bench_text import check_text
from anyseq.patterns import Window


def test_a_named_pattern_and_an_arbitrary_mask() -> None:
    named = bench.measure({"tokens": 64, "pattern": Window(4).to_dict()})
    assert (named["universal"], named["layers"], named["path"]) == (True, 16, None)
    mask = bench.measure({"tokens": 64, "pattern": None, "density": 0.1})
    assert mask["pattern"] == "arbitrary mask"
    assert mask["seconds"] > 0
    relative = bench.measure(
        {"tokens": 64, "pattern": Window(4).to_dict(), "position": "rope", "norm": "lp"}
    )
    assert (relative["pattern"], relative["universal"]) == ("Window rope lp", True)
    text = check_text({"verdicts": [named, mask, relative]})
    assert "Window, 64 tokens" in text
    assert max(map(len, text.splitlines())) <= 80
