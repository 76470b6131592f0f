"""An explanation tells what the layers did, and would notice if they did something else."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import anyseq as aq
from anyseq.construct.explaining.explain import attention_weights
from anyseq.construct.explaining.explanation import Explanation
from anyseq.construct.network.stages import Reading, Stage, check_stages
from anyseq.errors import InvalidArgument, WeightsChanged
from anyseq.nn import Attention
from construct import inputs

CAUSAL = aq.Design(3, patterns=aq.Causal(), depth=500)
SPARSE_GAIN = aq.Design(3, patterns=aq.Window(1), position=aq.URPE())
CASES = {
    "gather": ("attention", aq.Design(3), "gather", 1, 0.5),
    "gather, 2 features": ("sort", aq.Design(2), "gather", 2, 0.5),
    "gather, causal, idle layers": ("prefix-mean", CAUSAL, "gather", 1, 0.5),
    "gather, places found": ("attention", aq.Design(2, position=aq.URPE()), "gather", 1, 0.5),
    "gather, hops": ("attention", aq.Design(3, patterns=aq.Window(1)), "gather", 1, 0.9),
    "yun, theorem 3": ("sort", aq.Design(3), "yun", 1, 0.4),
    "yun, 2 features": ("sort", aq.Design(2), "yun", 2, 1.0),
    "yun, sparse": ("sort", aq.Design(4, patterns=aq.Window(1)), "yun", 1, 1.0),
    "yun, sparse, gain": ("sort", SPARSE_GAIN, "yun", 1, 1.0),
    "yun, theorem 2": ("plus-mean", aq.Design(2, position=aq.NoPosition()), "yun", 1, 0.9),
}


def build(name: str) -> aq.Approximation:
    function, design, method, features, tol = CASES[name]
    example = aq.functions[function]
    return aq.approximate(
        example, design, features=features, tol=tol, method=method,
        norm="sup" if method == "gather" else "lp",
        lipschitz=example.lipschitz(design.tokens, features),
    )  # fmt: skip


def replant(result: aq.Approximation, name: str, at: tuple[int, ...], by: float) -> None:
    """Change a weight and pretend that it was built so."""
    with torch.no_grad():
        result.model.get_parameter(name)[at] += by
    result._fingerprint = result.model.fingerprint()


def step(made: Explanation, name: str) -> int:
    return [one.stage.name for one in made.steps].index(name)


@pytest.mark.parametrize("name", CASES)
def test_layers_and_look_up_tell_the_same_story(name: str) -> None:
    result = build(name)
    for x in torch.cat([inputs.random(result, 3), inputs.corners(result, 3)]):
        made = result.explain(x)
        assert made.covered
        assert made.apart is not None
        assert made.apart <= 1e-9
        assert sum(one.apart is not None for one in made.steps) >= 3
        torch.testing.assert_close(made.y, result(x[None])[0], rtol=0, atol=1e-9)
        torch.testing.assert_close(made.steps[-1].after, made.y)
        assert sum(one.stage.layers for one in made.steps) == result.size.layers
        text = str(made)
        assert max(map(len, text.splitlines())) <= 80
        assert "agrees at every stage" in " ".join(text.split())


def test_the_nodes_of_gather_are_what_its_layers_added() -> None:
    result = build("gather")
    made = result.explain(inputs.random(result, 1)[0])
    assert len(made.nodes) == 4
    assert sum(node.weight for node in made.nodes) == pytest.approx(1.0)
    x = sum(node.weight * node.point for node in made.nodes)
    torch.testing.assert_close(x, made.x)
    values = made.steps[step(made, "interpolate")].after  # |f| <= 1: not scaled
    apart = 2 - 2 * torch.eye(3, dtype=torch.float64)
    expected = torch.stack([n.weight * n.value.flatten() for n in made.nodes]).sum(0)
    torch.testing.assert_close(values + apart, expected.expand(3, 3))
    (brought,) = made.steps[0].hits
    for token in range(3):  # a head for each token, by which all take it
        assert brought.looks[token][:, token].tolist() == [1.0, 1.0, 1.0]


def test_yun_shifts_one_token_after_the_other() -> None:
    result = build("yun, theorem 3")
    made = result.explain(torch.tensor([[0.1], [0.6], [0.3]], dtype=torch.float64))
    shifts = made.steps[step(made, "selective shifts")]
    assert [hit.changed for hit in shifts.hits] == [[0], [1], [2]]
    for hit in shifts.hits:
        (token,) = hit.changed
        high, low = (int(hit.looks[head][token].argmax()) for head in (0, 1))
        assert float(hit.before[high, 0]) == float(hit.before.max())
        assert float(hit.before[low, 0]) == float(hit.before.min())
    ids = made.steps[step(made, "global shift")].after
    assert torch.equal(2 * ids, (2 * ids).round()), "multiples of the step"
    values = made.steps[step(made, "value map")]
    assert len(values.hits) == 3


@pytest.mark.parametrize(
    ("function", "design", "tol"),
    [
        ("waves", aq.Design(2), 0.4),  # ids are rescaled
        ("waves", aq.Design(2, patterns=aq.Window(1)), 0.9),
        ("plus-mean", aq.Design(2, position=aq.NoPosition()), 0.9),
    ],
)
def test_ids_keep_their_unit_from_stage_to_stage(
    function: str, design: aq.Design, tol: float
) -> None:
    result = aq.approximate(
        aq.functions[function], design, features=1, tol=tol, norm="lp", method="yun"
    )
    made = result.explain([0.1, 0.7])
    kinds = [one.stage.reading.label for one in made.steps]
    places = [place for place, kind in enumerate(kinds) if kind == "id"]
    assert len(places) >= 3
    entries, first = made.steps[places[0] - 1], made.steps[places[0]]
    torch.testing.assert_close(first.before, entries.after, rtol=0, atol=0)
    for place in places[1:]:
        torch.testing.assert_close(made.steps[place].before, made.steps[place - 1].after)
    (values,) = (one for one in made.steps if one.stage.name == "value map")
    assert values.ids is not None
    torch.testing.assert_close(values.ids, made.steps[places[-1]].after[:, 0])
    assert (made.apart or 0.0) <= 1e-9


def test_different_ids_are_written_differently() -> None:
    design = aq.Design(2)
    result = aq.approximate(
        aq.functions["waves"], design, features=1, tol=0.4, norm="lp", method="yun"
    )
    text = str(result.explain([0.1, 0.7]))
    assert "id, token by token: 105,754,676.0625; 105,756,237.6875 (all different)" in text
    assert "token 0, id 105,754,676.0625: 0.55557" in text
    assert "token 2" not in text, "tokens count from 0"


def test_the_text_accounts_for_every_layer() -> None:
    result = build("yun, theorem 3")
    text = str(result.explain([0.1, 0.7, 0.3]))
    shown = "\n".join(line for line in text.splitlines() if line.startswith("   layer"))
    named: list[int] = []
    for first, last in re.findall(r"^   layers? (\d+)(?: to (\d+))?:", shown, flags=re.MULTILINE):
        named += range(int(first), int(last or first) + 1)
    nothing_changes = {14, 39, 40}  # two stages that say so
    assert named == [layer for layer in range(1, 41) if layer not in nothing_changes]
    assert "layers 4 to 5: change nothing that is shown" in text
    assert "layer 12: changes nothing that is shown" in text
    assert "(attends: head 0 to token 2, head 1 to token 0)" in text, "heads count from 0"


def test_the_text_says_once_which_table_agrees() -> None:
    text = " ".join(str(build("gather").explain([0.1, 0.7, 0.3])).split())
    table = "The look-up table behind result(x), computed without the layers, agrees"
    assert text.count(table) == 1
    assert text.index(table) < text.index("The table agrees")
    assert "those of other tokens are shifted by -2 and cut off in the next stage." in text


def test_a_plain_list_will_do() -> None:
    result = build("gather")
    x = torch.tensor([[0.1], [0.7], [0.3]], dtype=torch.float64)
    nested, flat = result.explain(x.tolist()), result.explain([0.1, 0.7, 0.3])
    assert str(nested) == str(flat) == str(result.explain(x))
    two = build("gather, 2 features")
    assert str(two.explain([[0.1, 0.2], [0.3, 0.4]])) == str(two.explain([0.1, 0.2, 0.3, 0.4]))
    for wrong, message in (
        ([0.1], r"x: \(1,\); expected a tensor"),
        ([[0.1], [0.2, 0.3], [0.4]], "expected a list of 3 tokens of 1 numbers"),
        (["a", "b", "c"], "expected a list of 3 tokens"),
        ([0.1, float("nan"), 0.3], "holds NaN"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            result.explain(wrong)


def test_a_printed_network_says_what_it_is() -> None:
    text = repr(build("yun, theorem 3").model)
    assert text.startswith("Stack: 3 tokens x 1 -> 1 features\n  40 layers (7 with attention), ")
    assert "515 parameters, torch.float64" in text
    assert "stages: quantise 1-6, selective shifts 7-12, global shift 13, rescale 14" in text
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) <= 6


def test_weights_are_what_attention_multiplies_with() -> None:
    """Weights times values, through the output, are what the half adds."""
    result = build("yun, theorem 3")
    model = result.model
    steps = list(model.trace(inputs.random(result, 1)))
    layer = int((model.get_buffer("halves")[:, 0] >= 0).nonzero()[1])
    before = steps[layer][1]
    mixer = model[layer].mixer
    assert isinstance(mixer, Attention)
    weights = torch.stack(list(attention_weights(model, layer, before).values()))
    values = mixer.v_proj(before)[0]
    mixed = torch.einsum("hij,jh->ih", weights, values)
    with torch.no_grad():
        torch.testing.assert_close(mixer.o_proj(mixed), mixer(before)[0])


@pytest.mark.parametrize(
    ("name", "weight", "at", "stage"),
    [
        ("gather", "down_bias", (0, 4 + 2), "gather"),
        ("gather", "down_bias", (9, 1 + 2), "interpolate"),
        ("gather, causal, idle layers", "down_bias", (0, 4), "gather"),
        ("yun, sparse, gain", "down_bias", (3, 0), "positions"),
        ("yun, sparse, gain", "o_weight", (-1, 0, 0), "value map"),
        ("gather", "down_bias", (-1, 0), "select"),
        ("yun, theorem 3", "down_bias", (0, 0), "quantise"),
        ("yun, theorem 3", "o_weight", (-1, 0, 0), "global shift"),
        ("yun, theorem 3", "down_bias", (-1, 0), "clip"),
    ],
)
def test_a_planted_fault_shows_in_its_stage(
    name: str, weight: str, at: tuple[int, ...], stage: str
) -> None:
    result = build(name)
    replant(result, weight, at, 1.0)
    made = result.explain(inputs.random(result, 1)[0])
    where = step(made, stage)
    for before in made.steps[:where]:
        assert before.apart is None or before.apart <= 1e-9, before.stage.name
    assert (made.steps[where].apart or 0.0) > 1e-3


@pytest.mark.parametrize(
    ("method", "position", "norm", "tol"),
    [
        ("sum", aq.NoPosition(), "sup", 0.9),
        ("boltzmann", aq.NoPosition(), "lp", 0.7),
        ("partition", aq.Absolute(), "sup", 0.7),
        ("fit", aq.Absolute(), "mean", 0.1),
    ],
)
def test_a_method_without_stages_says_so(
    method: str, position: aq.Position, norm: str, tol: float
) -> None:
    result = aq.approximate(
        aq.functions["attention"], aq.Design(2, position=position), features=1, tol=tol,
        norm=norm, method=method, lipschitz=None if method == "fit" else 2.0,
    )  # fmt: skip
    made = result.explain(inputs.random(result, 1)[0])
    (step,) = made.steps
    assert step.stage.layers == result.size.layers
    assert made.apart is not None
    assert made.apart <= 1e-9
    text = " ".join(str(made).split())
    assert f'Method "{method}" names no stages' in text
    replant(result, "down_bias", (-1, 0), 1.0)
    assert (result.explain(made.x).apart or 0.0) > 1e-3


def test_where_the_look_up_is_silent_only_the_network_speaks() -> None:
    result = build("yun, theorem 3")
    made = result.explain(inputs.ramps(result, 1)[0])
    assert not made.covered
    assert made.apart is None
    assert "on a ramp" in str(made)
    outside = str(result.explain(torch.full((3, 1), 1.5, dtype=torch.float64)))
    assert "nothing is claimed" in outside


def test_equal_tokens_are_erased_without_positions() -> None:
    result = build("yun, theorem 2")
    made = result.explain(torch.full((2, 1), 0.3, dtype=torch.float64))
    assert made.apart == 0.0
    assert not made.y.any()
    assert "two tokens lie in one cell" in str(made)


def test_a_loaded_network_is_explained_alike(tmp_path: Path) -> None:
    result = build("yun, theorem 3")
    x = inputs.random(result, 1)[0]
    result.save(tmp_path / "r")
    code = (
        "import anyseq, sys, torch\n"
        "x = torch.tensor(eval(sys.argv[2]), dtype=torch.float64)\n"
        "print(anyseq.load(sys.argv[1]).explain(x))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "r", str(x.tolist())],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.rstrip("\n") == str(result.explain(x))


def test_stages_must_fit_the_network() -> None:
    shape = build("gather").size
    (whole,) = check_stages((), shape)
    assert whole.layers == shape.layers
    reading = Reading("T", 0, 1)
    with pytest.raises(InvalidArgument, match="stages of 3 layers in all"):
        check_stages([Stage("one", 3, "", reading)], shape)
    for wrong in (Reading("T", shape.width, 1), Reading("T", 0, 2, (1.0,)), Reading("T", -1, 1)):
        with pytest.raises(InvalidArgument, match="does not fit"):
            check_stages([Stage("one", shape.layers, "", wrong)], shape)


def test_bad_inputs_are_named() -> None:
    result = build("gather")
    x = inputs.random(result, 1)
    with pytest.raises(InvalidArgument, match=r"x: \(1, 3, 1\); expected a tensor \(3, 1\)"):
        result.explain(x)
    with pytest.raises(InvalidArgument, match="float64"):
        result.explain(x[0].float())
    with pytest.raises(InvalidArgument, match="infinity"):
        result.explain(x[0] / 0)
    with torch.no_grad():
        result.model.get_parameter("up_bias")[0, 0] += 1.0
    with pytest.raises(WeightsChanged):
        result.explain(x[0])


@pytest.mark.parametrize("prob_map", ["softmax", "sparsemax", "entmax15"])
def test_weights_beside_a_sink(prob_map: str) -> None:
    design = aq.Design(2, position=aq.Rotary(), prob_map=prob_map, sinks=True, bos=True)
    result = aq.approximate(
        aq.functions["sort"], design, features=1, tol=0.6, lipschitz=1.0, method="gather"
    )
    model = result.model
    layer = int((model.get_buffer("halves")[:, 0] >= 0).nonzero()[0])
    before = list(model.trace(inputs.random(result, 1)))[layer][1]
    mixer = model[layer].mixer
    assert isinstance(mixer, Attention)
    values = mixer.v_proj(before)[0].unflatten(-1, (mixer.heads, mixer.head_dim))
    mixed = torch.zeros_like(values)
    for head, weights in attention_weights(model, layer, before).items():
        mixed[:, head] = weights @ values[:, head]
    with torch.no_grad():
        torch.testing.assert_close(mixer.o_proj(mixed.flatten(1)), mixer(before)[0])
