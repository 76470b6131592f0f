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
        ("Grid(8, 8)", aq.GridBias((8, 8))),
        ("urpe(grid(2,3,4))", aq.URPE(aq.GridBias((2, 3, 4)))),
    ],
)
def test_names(text: str, position: aq.Position) -> None:
    assert parse_position(text) == position
    assert parse_position(position_text(position)) == position


@pytest.mark.parametrize("text", ["", "ropes", "urpe(urpe)", "urpe(", "grid", "grid()", "grid(8,)"])
def test_bad_names(text: str) -> None:
    with pytest.raises(
        InvalidArgument, match=r"expected (one of none|a Position other than URPE|such as grid)"
    ):
        parse_position(text)
