"""Exported files give what result(x) gives, in other tools and without anyseq."""

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

import anyseq as aq
from anyseq.construct.files import export as exporting
from anyseq.construct.files.export import MOST_LAYERS, Compact
from anyseq.errors import FileProblem, InvalidArgument, MissingExtra, WeightsChanged
from construct import inputs

Run = Callable[[torch.Tensor], torch.Tensor]

CASES = {
    "gather": ("attention", aq.Design(2), "gather", 0.5),
    "gather, adaptive": ("spike", aq.Design(2), "gather", 0.3),
    "sum": ("attention", aq.Design(2, position=aq.NoPosition()), "sum", 0.9),
    "boltzmann": ("attention", aq.Design(2, position=aq.NoPosition()), "boltzmann", 0.7),
    "partition": ("attention", aq.Design(2), "partition", 0.7),
    "fit": ("attention", aq.Design(2), "fit", 0.1),
    "yun, sparse": ("attention", aq.Design(2, patterns=aq.Window(1)), "yun", 0.4),
    "yun, theorem 3": ("sort", aq.Design(2), "yun", 0.4),
    "yun, theorem 2": ("plus-mean", aq.Design(2, position=aq.NoPosition()), "yun", 0.9),
}


def build(name: str) -> aq.Approximation:
    function, design, method, tol = CASES[name]
    example = aq.functions[function]
    return aq.approximate(
        example, design, features=1, tol=tol, norm="lp", method=method,
        lipschitz=None if method == "fit" else example.local_lipschitz or example.lipschitz(2, 1),
    )  # fmt: skip


def in_onnxruntime(file: Path) -> Run:
    runtime: Any = import_module("onnxruntime")
    session = runtime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return lambda x: torch.from_numpy(session.run(None, {"x": x.numpy()})[0])


def in_torch(file: Path) -> Run:
    run: Run = torch.export.load(file).module()
    return run


TOOLS = {"onnx": (in_onnxruntime, "T.onnx"), "torch.export": (in_torch, "T.pt2")}


def tries(result: aq.Approximation) -> torch.Tensor:
    """Anywhere, at cell corners, at 0, and at what lies at the end of the domain."""
    x = torch.cat([inputs.random(result, 40), inputs.corners(result, 40)])
    x[0] = 0.0
    x[1] = 1.0 - 2.0**-40 if result.method == "yun" else 1.0
    return x[result.fused.covers(x)]


@pytest.mark.parametrize("format", TOOLS)
@pytest.mark.parametrize("name", CASES)
def test_the_compact_form_elsewhere(name: str, format: str, tmp_path: Path) -> None:
    result, (read, file) = build(name), TOOLS[format]
    result.export(format, tmp_path / file)
    run, x = read(tmp_path / file), tries(result)
    assert len(x) > 60
    for batch in (x, x[:1], x[:3]):
        torch.testing.assert_close(run(batch), result(batch), rtol=0, atol=1e-9)
    outside = x[:3].clone()
    outside[1, 0, 0] = 1.5
    assert run(outside).isnan().flatten(1).any(1).tolist() == [False, True, False]
    assert [path.name for path in tmp_path.iterdir()] == [file]


def test_ramps_give_nan_and_the_network_speaks_there(tmp_path: Path) -> None:
    result = build("yun, theorem 3")
    assert result.size.layers <= MOST_LAYERS
    result.export("torch.export", tmp_path / "compact.pt2")
    result.export("torch.export", tmp_path / "network.pt2", what="network")
    x = torch.cat([inputs.ramps(result, 8), inputs.random(result, 8)])
    covered = result.fused.covers(x)
    assert covered.tolist() == [False] * 8 + [True] * 8
    assert torch.equal(in_torch(tmp_path / "compact.pt2")(x).isfinite().flatten(1).all(1), covered)
    with torch.no_grad():
        assert torch.equal(in_torch(tmp_path / "network.pt2")(x), result.model(x))


def test_a_shallow_network_in_onnxruntime(tmp_path: Path) -> None:
    result = aq.approximate(
        aq.functions["attention"], aq.Design(2), features=1, tol=0.9, method="gather", lipschitz=2.0
    )
    result.export("onnx", tmp_path / "T.onnx", what="network")
    x = torch.cat([inputs.random(result, 20), inputs.corners(result, 20)])
    found = in_onnxruntime(tmp_path / "T.onnx")(x)
    torch.testing.assert_close(found, result(x), rtol=0, atol=1e-9)


def test_a_deep_network_is_refused_with_its_depth(tmp_path: Path) -> None:
    result = build("yun, theorem 2")
    with pytest.raises(InvalidArgument, match="281 layers one by one; at most 64"):
        result.export("onnx", tmp_path / "T.onnx", what="network")
    assert not list(tmp_path.iterdir())


def test_a_safetensors_file_holds_both_forms_and_the_facts(tmp_path: Path) -> None:
    result, file = build("gather"), tmp_path / "T.safetensors"
    result.export("safetensors", file)
    with safe_open(file, "pt") as opened:
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        facts = json.loads(opened.metadata()["anyseq"])
    for name, tensor in result.model.state_dict().items():
        assert torch.equal(tensors.pop(f"network.{name}"), tensor)
    assert torch.equal(tensors.pop("compact.values"), result.fused.tensors()["values"])
    assert not tensors
    assert facts["compact"] == {"kind": "kuhn", "steps": round(1 / result.facts.step)}
    assert facts["error"]["upper"] == result.error.upper


def test_an_exported_program_needs_no_anyseq(tmp_path: Path) -> None:
    result, file = build("gather"), tmp_path / "T.pt2"
    result.export("torch.export", file)
    code = (
        "import sys, torch\n"
        "run = torch.export.load(sys.argv[1]).module()\n"
        "print(run(torch.full((3, 2, 1), 0.3, dtype=torch.float64)).tolist())\n"
        "assert 'anyseq' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, file], capture_output=True, text=True, check=True
    )
    x = torch.full((3, 2, 1), 0.3, dtype=torch.float64)
    torch.testing.assert_close(torch.tensor(json.loads(done.stdout)).double(), result(x))


def test_the_search_that_onnx_lacks() -> None:
    rng = torch.Generator().manual_seed(0)
    for count in (1, 2, 3, 7, 8, 100):
        keys = torch.randint(0, 500, (count,), generator=rng).unique()
        values = torch.randint(-5, 510, (300,), generator=rng)
        found = exporting._search(keys, values)
        assert torch.equal(found, torch.searchsorted(keys, values))


def test_bad_requests_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = build("gather")
    with pytest.raises(InvalidArgument, match="format='tflite': expected one of 'onnx'"):
        result.export("tflite", tmp_path / "T")
    with pytest.raises(InvalidArgument, match="what='all'"):
        result.export("onnx", tmp_path / "T", what="all")
    with pytest.raises(InvalidArgument, match="holds both forms"):
        result.export("safetensors", tmp_path / "T", what="network")
    with pytest.raises(InvalidArgument, match=r"expected a name ending in \.pt2"):
        result.export("torch.export", tmp_path / "T.onnx")
    (tmp_path / "there").write_text("mine")
    with pytest.raises(FileProblem, match=r"file='.*there' exists already"):
        result.export("safetensors", tmp_path / "there")
    with pytest.raises(FileProblem, match="is not a folder"):
        result.export("safetensors", tmp_path / "no" / "T.safetensors")
    with pytest.raises(InvalidArgument, match="file=3"):
        result.export("safetensors", 3)  # type: ignore[arg-type]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r'pip install "anyseq\[export\]"'):
        result.export("onnx", tmp_path / "T")
    with torch.no_grad():
        result.model.get_parameter("up_bias")[0, 0] += 1.0
    with pytest.raises(WeightsChanged):
        result.export("safetensors", tmp_path / "T.safetensors")
    assert (tmp_path / "there").read_text() == "mine"


def test_the_compact_module_is_the_look_up() -> None:
    result = build("yun, theorem 2")
    x = tries(result)
    assert torch.equal(Compact(result.fused)(x), result(x))


def test_torch_says_nothing_of_torchvision_and_everything_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log, said = logging.getLogger(exporting._CONVERTER), []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    log.addHandler(handler)
    convert = torch.onnx.export

    def noisy(*given: Any, **options: Any) -> Any:
        log.warning("torchvision is not installed. Skipping %s", "torchvision::nms")
        log.warning("something else")
        return convert(*given, **options)

    monkeypatch.setattr(torch.onnx, "export", noisy)
    try:
        build("gather").export("onnx", tmp_path / "T.onnx")
        assert said == ["something else"]
        log.warning("torchvision is not installed. Skipping it")
        assert len(said) == 2
    finally:
        log.removeHandler(handler)
