"""The first line of a verdict, for every kind of answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

import anyseq as aq

HEADLINES: dict[str, tuple[aq.Design, dict[str, str], str]] = {
    "yes": (aq.Design(8), {}, "Yes at some width and depth, for every function."),
    "yes at a depth": (
        aq.Design(131_072, aq.Causal(), aq.Rotary(), bos=True, depth=32),
        {"target": "causal"},
        "Yes at some width, for every causal function.",
    ),
    "yes in L^p": (
        aq.Design(8, position=aq.RelativeBias()),
        {"norm": "lp"},
        "Yes at some width and depth, for every function, in L^p.",
    ),
    "yes for one output": (
        aq.Design(8, readout="last"),
        {},
        "Yes at some width and depth, for every function of exactly 8 tokens, read at the last "
        "token.",
    ),
    "equal tokens, causal": (
        aq.Design(131_072, aq.Causal(), aq.Rotary(), depth=32),
        {"target": "causal"},
        "No: it cannot tell how many equal tokens it has seen. With a BOS token first: yes at some "
        "width, for every causal function.",
    ),
    "equal tokens": (
        aq.Design(8, position=aq.RelativeBias()),
        {},
        "No: it cannot tell equal tokens apart by their places. With a BOS token first: yes "
        "at some width and depth, for every function.",
    ),
    "equal tokens, where BOS has no place": (
        aq.Design(4, position=aq.GridBias((2, 2))),
        {},
        "No: it cannot tell equal tokens apart by their places.",
    ),
    "equal tokens, for which BOS is no help": (
        aq.Design(8, position=aq.NoPosition()),
        {},
        "No: it cannot tell equal tokens apart by their places.",
    ),
    "too deep": (
        aq.Design(4096, aq.Causal() & aq.Window(127), depth=32),
        {"target": "causal"},
        "No: token 0 reaches token 4,065 after 33 layers, it has 32.",
    ),
    "never": (
        aq.Design(8, aq.Blocks(4)),
        {},
        "No: token 4 never reaches token 0, however many layers there are.",
    ),
    "causal": (
        aq.Design(8, aq.Causal()),
        {},
        "No: no token depends on a later one, so it computes causal functions only.",
    ),
    "symmetric": (
        aq.Design(8, position=aq.ALiBi()),
        {"norm": "lp"},
        "No, in L^p: reversing the sequence reverses the outputs.",
    ),
    "no feed-forward": (
        aq.Design(8, position=aq.RelativeBias(), feedforward=False, readout="last"),
        {"norm": "lp"},
        "Not known: there are no feed-forward layers, and no theorem covers that.",
    ),
    "a last norm": (
        aq.Design(8, final_norm="layernorm"),
        {},
        "No: the final layer norm makes features sum to 0.",
    ),
    "not known": (
        aq.Design(9, aq.Window(1), aq.URPE(), depth=9),
        {},
        "Not known: 12 layers are enough, depth is 9.",
    ),
}


@pytest.mark.parametrize("name", HEADLINES)
def test_the_headline(name: str) -> None:
    design, asked, words = HEADLINES[name]
    verdict = aq.check(design, **asked)  # type: ignore[arg-type]
    assert verdict.headline == words
    assert verdict.to_dict()["headline"] == words


@pytest.mark.parametrize("name", HEADLINES)
def test_the_headline_comes_first_on_one_screen(name: str) -> None:
    design, asked, words = HEADLINES[name]
    lines = str(aq.check(design, **asked)).splitlines()  # type: ignore[arg-type]
    assert " ".join(lines[: lines.index("")]) == words
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80


LLAMA = aq.Design(64, aq.Causal(), aq.Rotary(), depth=32)
WITHOUT = "without one it cannot tell how many equal tokens it has seen."


def test_a_bos_token_of_which_nobody_says() -> None:
    """As it is for a config: a tokenizer may put one first."""
    verdict = replace(aq.check(LLAMA, target="causal"), open_bos=True)
    assert verdict.universal is False
    assert verdict.headline == (
        f"Yes at some width, for every causal function, if a BOS token comes first; {WITHOUT}"
    )
    assert replace(verdict, width=64).headline == (
        "Yes at some width (its own is 64), for every causal function, if a BOS token comes first; "
        f"{WITHOUT}"
    )


def test_a_bos_token_that_would_not_be_enough() -> None:
    """Borders creep in through a narrow window for longer than there are layers."""
    narrow = aq.Design(64, aq.Causal() & aq.Window(8), aq.Rotary(), depth=8)
    verdict = replace(aq.check(narrow, target="causal"), open_bos=True)
    assert verdict.headline == "No: it cannot tell how many equal tokens it has seen."


def test_more_repairs_than_fit_are_counted() -> None:
    verdict = aq.check(aq.Design(64, aq.Window(4), aq.NoPosition(), depth=8))
    fixes = (*aq.check(LLAMA, target="causal").fixes, *aq.check(LLAMA, target="causal").fixes)
    many = replace(verdict, _fixes=lambda: (fixes[:5], True), _kept={})
    lines = [line for line in str(many).splitlines() if line.startswith("  repair")]
    assert len(lines) == 4
    assert lines[-1] == "  repair  and 2 more, in verdict.fixes"
