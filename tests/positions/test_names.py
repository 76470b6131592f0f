import pytest

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.positions import parse_position, position_text


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("none", aq.NoPosition()),
        ("RoPE", aq.Rotary()),
        ("t5", aq.T5Bias()),
        ("urpe", aq.URPE()),
        ("urpe(rope)", aq.URPE(aq.Rotary())),
    ],
)
def test_names(text: str, position: aq.Position) -> None:
    assert parse_position(text) == position
    assert parse_position(position_text(position)) == position


@pytest.mark.parametrize("text", ["", "ropes", "urpe(urpe)", "urpe("])
def test_bad_names(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"expected (one of none|a Position other than URPE)"):
        parse_position(text)
