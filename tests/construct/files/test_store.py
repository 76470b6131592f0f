import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import anyseq as aq
from anyseq.construct import Approximation
from anyseq.construct.request.functions import FUNCTIONS
from anyseq.errors import FileProblem
from construct.folders import tamper

CASES = {
    "gather": (FUNCTIONS["attention"], aq.Design(2), "gather"),
    "yun, theorem 3": (FUNCTIONS["sort"], aq.Design(2), "yun"),
    "fit": (FUNCTIONS["waves"], aq.Design(2), "fit"),
    "yun, theorem 2": (FUNCTIONS["plus-mean"], aq.Design(2, position=aq.NoPosition()), "yun"),
    "sum": (FUNCTIONS["plus-mean"], aq.Design(2, position=aq.NoPosition()), "sum"),
    "boltzmann": (FUNCTIONS["sort"], aq.Design(2), "boltzmann"),
    "boltzmann, no positions": (
        FUNCTIONS["plus-mean"],
        aq.Design(2, position=aq.NoPosition()),
        "boltzmann",
    ),
    "partition": (FUNCTIONS["attention"], aq.Design(2), "partition"),
}


def build(name: str) -> Approximation:
    example, design, method = CASES[name]
    return aq.approximate(
        example,
        design,
        features=1,
        tol=0.9,
        norm="lp",
        method=method,
        lipschitz=example.lipschitz(2, 1),
    )


def inputs() -> torch.Tensor:
    x = torch.rand(40, 2, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[0] = 1.0  # not covered by the look-up of yun
    return x


@pytest.mark.parametrize("name", CASES)
def test_a_loaded_result_is_the_same_to_the_bit(name: str, tmp_path: Path) -> None:
    result, x = build(name), inputs()
    result.save(tmp_path / "r")
    loaded = aq.load(tmp_path / "r")
    with torch.no_grad():
        assert torch.equal(loaded.model(x), result.model(x))
        assert torch.equal(loaded(x), result(x))
        assert torch.equal(loaded(x[1:]), result(x[1:]))
    assert repr(loaded) == repr(result)
    assert loaded.to_dict() == result.to_dict()
    assert loaded.facts == result.facts
    loaded.save(tmp_path / "again")
    for file in ("weights.safetensors", "fused.safetensors"):
        assert (tmp_path / "r" / file).read_bytes() == (tmp_path / "again" / file).read_bytes()


def test_another_process_reads_the_same_bits(tmp_path: Path) -> None:
    result, x = build("gather"), inputs()
    result.save(tmp_path / "r")
    torch.save(x, tmp_path / "x.pt")
    code = (
        "import anyseq, torch, sys\n"
        "y = anyseq.load(sys.argv[1])(torch.load(sys.argv[2]))\n"
        "torch.save(y.detach(), sys.argv[3])\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, tmp_path / "r", tmp_path / "x.pt", tmp_path / "y.pt"],
        check=True,
    )
    assert torch.equal(torch.load(tmp_path / "y.pt"), result(x))


def rewrite(folder: Path, file: str, tensors: dict[str, torch.Tensor]) -> None:
    """Change tensors and make the hash fit: what a hash cannot catch, shapes must."""
    save_file(load_file(folder / file) | tensors, folder / file)
    about = json.loads((folder / "about.json").read_text())
    about["sha256"][file] = hashlib.sha256((folder / file).read_bytes()).hexdigest()
    (folder / "about.json").write_text(json.dumps(about))


@pytest.mark.parametrize(
    ("file", "tensors", "message"),
    [
        ("weights.safetensors", {"up_bias": torch.zeros(3, 3)}, "'up_bias' has shape"),
        ("weights.safetensors", {"extra": torch.zeros(3)}, "expected .*halves"),
        ("fused.safetensors", {"values": torch.zeros(9, 3, 1)}, "'values' has shape"),
        ("fused.safetensors", {"extra": torch.zeros(9)}, "fused form cannot be read"),
    ],
)
def test_shapes_that_do_not_fit(
    file: str, tensors: dict[str, torch.Tensor], message: str, tmp_path: Path
) -> None:
    build("gather").save(tmp_path / "r")
    rewrite(tmp_path / "r", file, tensors)
    with pytest.raises(FileProblem, match=message):
        aq.load(tmp_path / "r")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"out_bias": torch.zeros(2, dtype=torch.float64)}, "fused form and network differ"),
        ({"out_bias": torch.zeros(3, dtype=torch.float64)}, "'out_weight' has shape"),
        ({"out_bias": torch.zeros(2)}, "'out_bias' has shape .* and torch.float32"),
        ({"up_bias": torch.zeros(3, dtype=torch.float64)}, "'up_bias' has shape"),
    ],
)
def test_a_fitted_net_that_is_not_the_networks(
    change: dict[str, torch.Tensor], message: str, tmp_path: Path
) -> None:
    build("fit").save(tmp_path / "r")
    rewrite(tmp_path / "r", "fused.safetensors", change)
    with pytest.raises(FileProblem, match=message):
        aq.load(tmp_path / "r")


@pytest.mark.parametrize("key", ["design", "shape", "error", "fused", "method", "tol"])
def test_missing_facts(key: str, tmp_path: Path) -> None:
    build("gather").save(tmp_path / "r")
    about = json.loads((tmp_path / "r" / "about.json").read_text())
    del about["facts"][key]
    (tmp_path / "r" / "about.json").write_text(json.dumps(about))
    with pytest.raises(FileProblem, match="damaged or was changed"):
        aq.load(tmp_path / "r")
    facts = json.dumps(about["facts"], sort_keys=True)
    about["facts_sha256"] = hashlib.sha256(facts.encode()).hexdigest()
    (tmp_path / "r" / "about.json").write_text(json.dumps(about))
    with pytest.raises(FileProblem, match="does not fit together"):
        aq.load(tmp_path / "r")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("tol",), None),
        (("step",), 0.125),
        (("checked",), {"a": 3}),
        (("error", "at"), 1),
        (("error", "at"), [[0.5]]),
        (("error", "assumes"), [1]),
        (("error", "upper"), "x"),
        (("error", "lower"), -1),
        (("fused", "steps"), True),
        (("fused", "steps"), -1),
        (("fused", "ramp"), "x"),
        (("fused", "positions"), False),
        (("fused", "offsets"), [0, 0]),
        (("fused", "offsets"), [1.5, 0]),
        (("cells",), 3),
        (("design", "tokens"), 5),
        (("shape", "width"), 2),
    ],
    ids=str,
)
def test_facts_of_another_kind_even_with_their_hash(
    place: tuple[str, ...], value: object, tmp_path: Path
) -> None:
    build("yun, theorem 3").save(tmp_path / "r")
    tamper(tmp_path / "r", place, value)
    with pytest.raises(FileProblem, match="does not fit together"):
        aq.load(tmp_path / "r")


@pytest.mark.parametrize("cut", [0, 10, 1000])
def test_truncated_weights(cut: int, tmp_path: Path) -> None:
    build("yun, theorem 3").save(tmp_path / "r")
    file = tmp_path / "r" / "weights.safetensors"
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(FileProblem, match="damaged"):
        aq.load(tmp_path / "r")


def test_a_newer_version_is_refused_by_name(tmp_path: Path) -> None:
    build("gather").save(tmp_path / "r")
    about = json.loads((tmp_path / "r" / "about.json").read_text())
    (tmp_path / "r" / "about.json").write_text(json.dumps(about | {"version": 99}))
    with pytest.raises(FileProblem, match=r"version 99 of anyseq\.approximation"):
        aq.load(tmp_path / "r")
