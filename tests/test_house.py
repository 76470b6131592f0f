"""Imports go downward, and docs/house.svg and docs/rooms.svg show them."""

import re

import pytest

from house import PICTURES, ROOT, House, cycle, edges_between, read

HOUSES, IMPORTS = read()


@pytest.mark.parametrize("package", PICTURES)
def test_imports_go_downward(package: str) -> None:
    house = HOUSES[package]
    assert house.edges
    assert house.wrong == []
    assert cycle({name: {b for a, b in house.edges if a == name} for name in house.names}) == []


def test_no_modules_of_construct_import_each_other() -> None:
    inside = {name for name in IMPORTS if name.startswith("anyseq.construct")}
    assert len(inside) > 100
    assert cycle({name: IMPORTS[name] & inside for name in inside}) == []


@pytest.mark.parametrize(("package", "name"), PICTURES.items())
def test_the_pictures_are_those_of_today(package: str, name: str) -> None:
    drawn = re.findall(r'id="(\w+)--(\w+)"', (ROOT / "docs" / name).read_text())
    assert set(drawn) == HOUSES[package].edges, "draw them again: make house"


def test_planted_edges_are_found() -> None:
    imports = {"p.top.a": {"p.low.a", "q.low"}, "p.low.a": {"p.low.b"}, "p.low.b": {"p.top.a"}}
    edges = edges_between(imports, "p")
    assert edges == {("top", "low"), ("low", "top")}
    assert House((("top",), ("low",)), edges).wrong == [("low", "top")]
    assert House((("low", "top"),), edges).wrong == [("low", "top"), ("top", "low")]
    assert set(cycle(imports)) == set(imports)
    assert cycle({"a": {"b", "c"}, "b": {"c"}}) == []
    stairs = frozenset({("a", "b"), ("b", "c"), ("a", "c")})
    assert House((("a",), ("b",), ("c",)), stairs).plain == stairs - {("a", "c")}
