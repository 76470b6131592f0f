"""The networks of the page: what runs in the browser is what the library built."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from anyseq.base import generator, uniform
from anyseq.construct import FUNCTIONS, Approximation, approximate
from anyseq.construct.explaining.explain import attention_weights
from anyseq.design import Design
from anyseq.patterns import Causal, PerHead, Window
from anyseq.play.network import described, script
from anyseq.play.shipped import FOLDER, SHIPPED, Shipped, file_name, formula_of, write
from anyseq.positions import parse_position

EXACT = 1e-12

by_name = pytest.mark.parametrize("shipped", SHIPPED, ids=lambda one: file_name(one)[:-3])


def inputs(tokens: int) -> torch.Tensor:
    """(batch, tokens, 1): random, corners, equal tokens, grid points, ties and almost-ties."""
    rng = generator(24)
    some = uniform(200, tokens, 1, rng=rng)
    grid = torch.randint(0, 5, (100, tokens, 1), generator=rng).double() / 4
    equal = uniform(20, 1, 1, rng=rng).expand(20, tokens, 1)
    near = equal + 1e-9 * uniform(20, tokens, 1, rng=rng)
    ramp = torch.linspace(0, 1, tokens, dtype=torch.float64)[None, :, None]
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * tokens).double()[..., None]
    return torch.cat([some, grid, equal, near.clamp(0, 1), ramp, ramp.flip(1), corners])


def read(path: Path) -> dict[str, Any]:
    text = path.read_text()
    found: dict[str, Any] = json.loads(text[text.index("push(") + 5 : text.rindex(");")])
    return found


RUN = """([data, inputs, kept]) => {
  const network = Blocks.load(data);
  return inputs.map((x) => {
    const { steps, outputs } = network.trace(x);
    return {
      layers: steps.map((step) => step.layer),
      states: kept.map((at) => Array.from(steps[at].state)),
      weights: kept.map((at) => Array.from(steps[at].weights ?? [])),
      outputs,
      target: network.target(x),
      error: network.error(x),
    };
  });
}"""


def check_run(page: Any, data: dict[str, Any], result: Approximation, f: Any) -> None:
    """That the page computes what the library's network does: outputs, targets and the state at the
    end of each stage for all inputs, the state after every half for some."""
    x = inputs(result.size.tokens)
    layers = [layer for layer, _ in result.model.trace(x[:1])]
    ends, first = [], 0
    for stage in result.facts.stages:
        first += stage.layers
        ends.append(max(at for at, layer in enumerate(layers) if layer < first))
    check_states(page, data, result, x, ends)
    few = x[::60]
    ran = check_states(page, data, result, few, list(range(len(layers))))
    assert ran[0]["layers"] == layers
    check_weights(ran, result, few)
    ran = page.evaluate(RUN, [data, x.flatten(1).tolist(), []])
    with torch.no_grad():
        y, wanted = result.model(x), f(x)
    outputs = torch.tensor([one["outputs"] for one in ran], dtype=torch.float64)
    assert float((outputs - y.flatten(1)).abs().max()) <= EXACT
    target = torch.tensor([one["target"] for one in ran], dtype=torch.float64)
    assert float((target - wanted.flatten(1)).abs().max()) <= EXACT
    assert result.error.upper is not None
    assert max(one["error"] for one in ran) <= result.error.upper


def check_states(
    page: Any, data: dict[str, Any], result: Approximation, x: torch.Tensor, kept: list[int]
) -> list[dict[str, Any]]:
    ran: list[dict[str, Any]] = page.evaluate(RUN, [data, x.flatten(1).tolist(), kept])
    with torch.no_grad():
        states = [state for _, state in result.model.trace(x)]
    expected = torch.stack([states[at] for at in kept]).flatten(2)
    seen = torch.tensor([one["states"] for one in ran], dtype=torch.float64).transpose(0, 1)
    apart = (seen - expected).abs() / expected.abs().clamp(min=1.0)
    assert float(apart.max()) <= EXACT
    return ran


def check_weights(ran: list[dict[str, Any]], result: Approximation, x: torch.Tensor) -> None:
    """The weights of the heads that write anything, against the library's explanation."""
    for one, single in zip(ran, x, strict=True):
        with torch.no_grad():
            trace = list(result.model.trace(single[None]))
            before = trace[0][1]
            for (layer, state), weights in zip(trace[1:], one["weights"][1:], strict=True):
                if weights:
                    count = before.shape[1]
                    made = torch.tensor(weights, dtype=torch.float64).view(-1, count, count)
                    for head, expected in attention_weights(result.model, layer, before).items():
                        size = expected.abs().clamp(min=1.0)
                        assert float(((made[head] - expected).abs() / size).max()) <= EXACT
                before = state


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Any]:
    """An empty page with the scripts that run networks."""
    with browser.new_context() as context:
        opened = context.new_page()
        for name in ("formula.js", "blocks.js"):
            opened.add_script_tag(path=FOLDER.parent / name)
        yield opened


@by_name
def test_shipped_networks_run_as_the_librarys(page: Any, shipped: Shipped) -> None:
    function = FUNCTIONS[shipped.function]
    design = shipped.design
    result = approximate(function, design, features=1, tol=shipped.tol)
    check_run(page, read(FOLDER / file_name(shipped)), result, function)


@pytest.mark.parametrize(
    "name",
    ["rope", "alibi", "relative", "t5", "urpe(rope)", "urpe(alibi)", "sinusoidal", "none"],
)
def test_every_kind_of_position_runs(page: Any, name: str) -> None:
    function = FUNCTIONS["running-max"]
    position = parse_position(name)
    design = Design(3, Causal(), position=position, bos=True)
    result = approximate(function, design, features=1, tol=0.2)
    check_run(page, described(result, name, formula_of("running-max")), result, function)


def test_sinks_and_heads_that_differ_run(page: Any) -> None:
    function = FUNCTIONS["sort"]
    design = Design(3, PerHead(Window(1), Causal()), sinks=True)
    result = approximate(function, design, features=1, tol=0.2)
    check_run(page, described(result, "sinks", formula_of("sort")), result, function)


def close(found: Any, expected: Any) -> bool:
    """The same, where numbers may differ by what another machine rounds."""
    if isinstance(expected, float) and isinstance(found, float | int):
        return bool(abs(found - expected) <= EXACT * max(1.0, abs(expected)))
    if isinstance(expected, dict) and isinstance(found, dict):
        return found.keys() == expected.keys() and all(
            close(found[name], expected[name]) for name in expected
        )
    if isinstance(expected, list) and isinstance(found, list):
        return len(found) == len(expected) and all(map(close, found, expected))
    return bool(found == expected)


@by_name
def test_shipped_files_are_what_make_networks_writes(shipped: Shipped) -> None:
    made = json.loads(json.dumps(shipped.network()))
    found = read(FOLDER / file_name(shipped))
    for searched in ("at", "lower"):  # of a search, whose steps turn on the last bit
        del made[searched], found[searched]
    assert close(found, made), "run `make networks`"


def test_no_other_file_is_shipped_and_all_are_small(tmp_path: Path) -> None:
    files = sorted(FOLDER.iterdir())
    assert [file.name for file in files] == sorted(map(file_name, SHIPPED))
    assert sum(file.stat().st_size for file in files) < 1.5e6
    page = (FOLDER.parent / "index.html").read_text()
    assert all(f'src="networks/{file.name}"' in page for file in files)
    write(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == [file.name for file in files]


def test_a_network_is_written_to_the_last_bit() -> None:
    data = SHIPPED[0].network()
    text = script(data)
    assert json.loads(text[text.index("push(") + 5 : text.rindex(");")]) == json.loads(
        json.dumps(data)
    )
