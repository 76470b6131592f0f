import pytest

from anyseq.base import rounded_down, table


def test_table_aligns() -> None:
    assert table(("method", "n"), [("a", "1"), ("long one", "1,000")]).splitlines() == [
        "method        n",
        "---------------",
        "a             1",
        "long one  1,000",
    ]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (65535.5, "65,535.5"), (1023.5, "1,023.5"), (16383.5, "16,383.5"), (4096.0, "4,096"),
        (0.5, "0.5"), (1 / 12, "0.08333"), (11.7835, "11.78"), (10.3972, "10.39"), (511.5, "511.5"),
        (2.0, "2"), (0.0, "0"), (0.0001239999, "0.0001239"),
    ],
)  # fmt: skip
def test_lower_bounds_stay_below(number: float, text: str) -> None:
    assert rounded_down(number) == text
    assert float(text.replace(",", "")) <= number
