"""docs/measured.md speaks of the networks of today, and `anyseq bench` can write its blocks."""

import re
from pathlib import Path

import anyseq as aq

PAGE = (Path(__file__).parents[2] / "docs" / "measured.md").read_text()


def test_every_block_names_its_command() -> None:
    blocks = re.findall(
        r"^<!-- bench (\w+) -->\n```text\n.*?^```\n<!-- end -->$", PAGE, re.M | re.S
    )
    assert blocks == ["construct", "fit", "attention", "check"]
    for name in blocks:
        assert f"`anyseq bench {name}" in PAGE


def test_the_constructed_networks_are_those_of_today() -> None:
    (block,) = re.findall(r"<!-- bench construct -->\n(.*?)<!-- end -->", PAGE, re.DOTALL)
    for tokens, tol in ((4, 0.125 / 2 * 2 * 1.05), (4, 0.0625 / 2 * 2 * 1.05)):
        plan = aq.plan(aq.Design(tokens), 1, tol, lipschitz=1.0, norm="lp")
        assert f"{plan.choose('yun').shape.layers:,} layers" in block
