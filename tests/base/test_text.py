from anyseq.base import table


def test_table_aligns() -> None:
    assert table(("method", "n"), [("a", "1"), ("long one", "1,000")]).splitlines() == [
        "method        n",
        "---------------",
        "a             1",
        "long one  1,000",
    ]
