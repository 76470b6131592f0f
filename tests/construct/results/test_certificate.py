"""Certificates hold for what was built, and for nothing else."""

import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import anyseq as aq
from anyseq.base import generator, uniform
from anyseq.construct import Approximation
from anyseq.construct.claims.facts import facts_of
from anyseq.construct.methods.yun import yun
from anyseq.construct.request.functions import FUNCTIONS
from anyseq.construct.results.certificate import Certificate
from anyseq.construct.tables.fused import CellTable
from anyseq.errors import CannotApproximate, FileProblem
from anyseq.verify import Verification, verify
from construct import forgery
from construct.folders import tamper
from construct.forgery import claim_of, failed, forge, is_felt, texts, wrong_number


def build(
    name: str, tokens: int, features: int, tol: float, norm: str, method: str, positions: bool
) -> Approximation:
    position = aq.Absolute() if positions else aq.NoPosition()
    return build_for(name, aq.Design(tokens, position=position), features, tol, norm, method)


def build_for(
    name: str, design: aq.Design, features: int, tol: float, norm: str, method: str
) -> Approximation:
    example, tokens = FUNCTIONS[name], design.tokens
    bend = example.curvature
    return aq.approximate(
        example,
        design,
        features=features,
        tol=tol,
        norm=norm,
        method=method,
        lipschitz=example.lipschitz(tokens, features),
        curvature=None if bend is None else bend(tokens, features),
    )


def build_with_bits(bits: int, *ask: Any) -> Approximation:
    """With ids of so many bits at the most: fewer than float64 has, so that few cells are enough
    for the network that saves some."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yun, "EXACT_BITS", bits)
        return build(*ask)


DENSE = {
    "gather, 2 tokens": build("waves", 2, 1, 0.8, "sup", "gather", True),
    "gather, 3 tokens": build("attention", 3, 1, 0.3, "lp", "gather", True),
    "gather, 2 features": build("cosine", 1, 2, 0.7, "sup", "gather", True),
    "yun, theorem 3": build("sort", 2, 1, 0.2, "lp", "yun", True),
    "yun, 2 features": build("attention", 2, 2, 1.5, "lp", "yun", True),
    "yun, route": build_with_bits(20, "reverse", 3, 1, 0.5, "lp", "yun", True),
    "yun, theorem 2": build("plus-mean", 2, 1, 1.0, "lp", "yun", False),
    "yun, 3 tokens": build("times-max", 3, 1, 1.3, "lp", "yun", False),
}
READ = {  # the front of these is proved, too
    "gather, window": aq.Design(3, aq.Window(1)),
    "gather, heads, bos": aq.Design(3, aq.PerHead(aq.Causal(), aq.Star(1)), bos=True),
    "gather, sinks": aq.Design(3, aq.PerHead(aq.Strided(2), aq.Full()), sinks=True),
    "gather, sparsemax": aq.Design(2, prob_map="sparsemax"),
    "gather, depth": aq.Design(2, depth=60),
}
RUN = {  # what comes before the slots, or before the quantiser, is sampled
    "gather, rotary, bos": aq.Design(2, position=aq.Rotary(), bos=True),
    "gather, sinusoidal": aq.Design(2, position=aq.Sinusoidal()),
    "gather, gains": aq.Design(2, position=aq.URPE()),
    "yun, gains": aq.Design(2, position=aq.URPE()),
    "yun, window, gains": aq.Design(3, aq.Window(1), position=aq.URPE(shared=False)),
}
CELLS = {  # shifts are run at all cells
    "yun, window": aq.Design(3, aq.Window(1)),
    "yun, hardmax": aq.Design(2, prob_map="hardmax"),
    "yun, in turns": aq.Design(3, aq.Strided(2).split()),
}
RESULTS = DENSE | {
    name: build_for("sort", design, 1, 0.9, "lp", "yun")
    if "yun" in name
    else build_for("times-max", design, 1, 0.3, "sup", "gather")
    for name, design in (READ | RUN | CELLS).items()
}


def certificate(name: str) -> Certificate:
    found = RESULTS[name].certificate
    assert found is not None
    return found


def look_again(name: str, **changed: Any) -> Verification:
    return forgery.look_again(RESULTS[name], **changed)


@pytest.mark.parametrize("name", RESULTS)
def test_what_was_built_holds(name: str) -> None:
    verification = certificate(name).verify()
    assert verification, verification
    assert all(check.passed for check in verification.checks if check.name != "balls")
    dense = certificate(name).claim.dense
    wanted = ["report", "weights", "table", "facts", "sizes", "layers", "network"]
    wanted += ["look-up", "error", "measure", "balls"]
    if "gather" in name:
        wanted.insert(6, "front")
    assert [check.name for check in verification.checks] == wanted
    assert verification.checks[-1].passed is (True if dense else None)


@pytest.mark.parametrize("name", RESULTS)
def test_what_was_sampled_is_called_so(name: str) -> None:
    found = texts(certificate(name).verify())
    sampled = {check for check, why in found.items() if "SAMPLED, not proved" in why}
    before = {"front" if "gather" in name else "network"} if name in RUN else set()
    assert sampled == {"look-up"} | before
    if "gather" in name:
        assert ("read from the weights" in found["front"]) is (name not in RUN)
        assert "(read from the weights)" in found["network"]
    else:
        assert "every layer read, at all" in found["network"]


def test_a_part_of_the_simplices_is_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyseq.verify.simplices._WORK", 1e4)
    found = texts(certificate("gather, 3 tokens").verify())
    assert found["network"].startswith("SAMPLED, not proved: affine on ")


def test_a_part_of_the_cells_is_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyseq.verify.cells._WORK", 1.0)
    monkeypatch.setattr("anyseq.verify.cells._LEAST", 3)
    found = texts(certificate("yun, window").verify())
    assert "SAMPLED, not proved" in found["network"]


@pytest.mark.parametrize("name", [name for name in RESULTS if "yun" in name])
def test_another_order_of_positions_is_found(name: str) -> None:
    order: tuple[int, ...] = getattr(RESULTS[name].fused, "offsets", ())
    wrong = [(*order[1:], order[0]), order[1:], (7, *order[1:])]
    for other in wrong if any(order) else wrong[1:]:
        assert not look_again(name, order=other), other


@pytest.mark.parametrize(("tokens", "tol"), [(1, 1e-3), (2, 0.04), (2, 0.02), (3, 0.1)])
def test_fine_grids_of_the_literal_network_hold(tokens: int, tol: float) -> None:
    """Their ids are so much larger than their gaps that rescaling rounds them."""
    result = build("attention", tokens, 1, tol, "lp", "yun", True)
    assert result.certificate is not None
    verification = result.certificate.verify()
    assert verification, verification


@pytest.mark.parametrize("name", ["yun, theorem 3", "yun, route", "yun, theorem 2"])
@pytest.mark.parametrize("more", [1, 2, 40])
def test_windows_beyond_those_of_the_tokens_are_followed(name: str, more: int) -> None:
    """Further windows, in order, that the ids of no token begin in: some end there."""
    result = RESULTS[name]
    state, cells = result.model.state_dict(), round(1 / result.facts.step)
    last = len(state["q_bias"]) - 2  # the last window; then the global shift
    weights = {}
    for tensor in ("q_weight", "q_bias", "k_weight", "v_weight", "o_weight"):
        rows = state[tensor]
        extra = rows[last : last + 1].repeat(more * cells, *[1] * (rows.ndim - 1))
        if tensor == "q_bias":
            unit = rows[last] - rows[last - 1]
            extra = extra + unit * torch.arange(1, more * cells + 1)[:, None].to(unit)
        weights[tensor] = torch.cat([rows[: last + 1], extra, rows[last + 1 :]])
    halves = state["halves"]
    at = int((halves[:, 0] == last).nonzero())
    idle = torch.stack(
        [torch.arange(last + 1, last + 1 + more * cells), torch.full((more * cells,), -1)], 1
    )
    later = halves[at + 1 :].clone()
    later[later[:, 0] >= 0, 0] += more * cells
    weights["halves"] = torch.cat([halves[: at + 1], idle.to(halves), later])
    shape = replace(
        result.size,
        layers=result.size.layers + more * cells,
        attention_layers=result.size.attention_layers + more * cells,
    )
    network = forgery.network_with(result, weights, shape=shape)
    facts, table = facts_of(claim_of(result), network, result.fused), result.fused.tensors()
    found = verify(facts, network=network, table=table, look_up=result.fused)
    x = inputs(name)
    with torch.no_grad():
        same = torch.equal(network(x), result.model(x))
    assert bool(found) is same


def test_it_holds_in_another_process(tmp_path: Path) -> None:
    RESULTS["gather, 2 tokens"].save(tmp_path / "r")
    code = "import anyseq, sys; print(bool(anyseq.load(sys.argv[1]).certificate.verify()))"
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "r"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"


def test_nothing_proved_nothing_certified(tmp_path: Path) -> None:
    result = aq.approximate(FUNCTIONS["sort"].f, aq.Design(2), features=1, tol=0.5)
    assert result.certificate is None
    result.save(tmp_path / "r")
    assert aq.load(tmp_path / "r").certificate is None


def test_without_flint_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flint", None)
    verification = certificate("gather, 2 tokens").verify()
    assert verification
    assert "balls    skipped: python-flint is not installed" in str(verification)


def test_weights_that_were_changed_are_not_the_certified_ones() -> None:
    result = build("sort", 2, 1, 0.3, "lp", "yun", True)
    held = result.certificate
    assert held is not None
    with torch.no_grad():
        result.model.get_parameter("up_bias")[5, 0] += 1e-12
    verification = held.verify()
    assert not verification
    assert "weights  FAILS: SHA-256" in str(verification)


def inputs(name: str) -> torch.Tensor:
    """Random ones, nodes and points next to nodes."""
    result = RESULTS[name]
    shape, step = result.size, result.facts.step
    x = uniform(600, shape.tokens, shape.in_features, rng=generator(1))
    nodes = (x[:200] / step).round() * step
    return torch.cat([x, nodes.clamp(0, 0.999), (nodes + step / 64).clamp(0, 0.999)])


@settings(max_examples=80)
@given(st.sampled_from(sorted(RESULTS)), st.data())
def test_one_wrong_number_that_matters_is_found(name: str, data: st.DataObject) -> None:
    """Any entry of any tensor, changed in any way: if the network computes another function, the
    second opinion says no, even if all hashes fit."""
    result = RESULTS[name]
    weights = wrong_number(result, data)
    x = inputs(name)
    if is_felt(result, weights, x):
        assert not look_again(name, weights=weights), weights.keys()


@pytest.mark.parametrize("name", RESULTS)
def test_swapped_layers_are_found(name: str) -> None:
    """From the middle on, the first two neighbours whose exchange is felt."""
    result = RESULTS[name]
    weights, x = result.model.state_dict(), inputs(name)
    for tensor in ("up_bias", "down_weight"):
        for row in range(len(weights[tensor]) // 2, len(weights[tensor]) - 1):
            wrong = weights[tensor].clone()
            wrong[[row, row + 1]] = wrong[[row + 1, row]]
            felt = is_felt(result, {tensor: wrong}, x)
            if felt:
                break
        assert felt
        assert not look_again(name, weights={tensor: wrong}), tensor


@pytest.mark.parametrize("name", [name for name in RESULTS if "yun" in name])
def test_shifted_ids_are_found(name: str) -> None:
    """All ids moved by one gap, or two ids exchanged."""
    result = RESULTS[name]
    bias = result.model.state_dict()["up_bias"]
    values = result.facts.cells * result.size.tokens
    first = len(bias) - values - 2 * -(-result.size.out_features // 2)
    moved, exchanged = bias.clone(), bias.clone()
    moved[first : first + values] += bias[first, 0] - bias[first, 3]
    exchanged[[first, first + 1]] = bias[[first + 1, first]]
    for wrong in (moved, exchanged):
        verification = look_again(name, weights={"up_bias": wrong})
        assert not verification
        assert "network" in failed(verification)


@pytest.mark.parametrize("name", RESULTS)
def test_a_table_of_other_values_is_found(name: str) -> None:
    values = RESULTS[name].fused.tensors()["values"].clone()
    values[0, 0, 0] += 1e-3
    assert not look_again(name, table={"values": values})


@pytest.mark.parametrize("name", RESULTS)
def test_wrong_claims_are_found(name: str) -> None:
    claim = certificate(name).claim
    lower = tuple((what, on, value * 0.99) for what, on, value in claim.terms)
    first, *rest = claim.terms
    moved = ((first[0], first[1], first[2] / 2), *rest)
    wrong = [
        replace(claim, upper=claim.upper * 0.99),
        replace(claim, terms=lower, upper=claim.upper * 0.99),
        replace(claim, terms=moved),
        replace(claim, terms=claim.terms[1:]),
        replace(claim, terms=claim.terms[:1]),
        replace(claim, bound=claim.bound / 100),
        replace(claim, steps=claim.steps * 2),
        replace(claim, tokens=claim.tokens + 1),
        replace(claim, lipschitz=None, curvature=None),
        replace(claim, method="magic"),
    ]
    if claim.method == "yun":
        assert claim.lipschitz is not None
        wrong.append(replace(claim, lipschitz=claim.lipschitz * 1.1))
        wrong.append(replace(claim, positions=not claim.positions))
    elif claim.curvature is not None:
        wrong.append(replace(claim, curvature=claim.curvature * 2, lipschitz=None))
        wrong.append(replace(claim, curvature=claim.curvature / 50))  # the values bend more
    for other in wrong:
        assert not look_again(name, claim=other), other


@pytest.mark.parametrize("name", [name for name in RESULTS if "yun" in name])
def test_cells_claim_nothing_in_sup_norm(name: str) -> None:
    claim = certificate(name).claim
    most = max(value for _, _, value in claim.terms)
    found = look_again(name, claim=replace(claim, norm="sup", upper=most))
    assert failed(found).keys() == {"error"}


def test_constants_that_the_values_contradict_are_found() -> None:
    for name in ("gather, 2 tokens", "gather, 2 features", "yun, theorem 3"):
        claim = certificate(name).claim
        assert claim.lipschitz is not None
        verification = look_again(name, claim=replace(claim, lipschitz=claim.lipschitz / 4))
        assert "values at neighbouring nodes differ" in str(verification)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("error", "upper"), 0.001),
        (("error", "terms", 0, "value"), 0.0),
        (("error", "norm"), "lp"),
        (("method",), "yun"),
        (("status",), "certified"),
        (("error", "assumes"), ["nothing"]),
        (("certificate", "claim", "upper"), 0.001),
        (("certificate", "claim", "lipschitz"), 0.5),
        (("certificate", "claim", "terms"), []),
        (("certificate", "weights_sha256"), "0" * 64),
        (("certificate", "table_sha256"), "0" * 64),
        (("certificate", "facts_sha256"), "0" * 64),
        (("design", "depth"), 1000),
        (("certificate",), None),
        (("certificate", "claim"), {}),
        (("error", "upper"), None),
    ],
    ids=str,
)
def test_edited_files_are_found_even_with_their_hash(
    place: tuple[Any, ...], value: object, tmp_path: Path
) -> None:
    RESULTS["gather, 2 tokens"].save(tmp_path / "r")
    tamper(tmp_path / "r", place, value)
    try:
        loaded = aq.load(tmp_path / "r")
    except FileProblem:
        return
    assert loaded.certificate is not None
    assert not loaded.certificate.verify()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("error", "exceptional"), 0.0),
        (("fused", "ramp"), 0.0),
        (("fused", "end"), 0.5),
        (("design", "depth"), 10**6),
    ],
    ids=str,
)
def test_the_certificate_is_bound_to_facts(
    place: tuple[Any, ...], value: object, tmp_path: Path
) -> None:
    RESULTS["yun, theorem 2"].save(tmp_path / "r")
    tamper(tmp_path / "r", place, value)
    loaded = aq.load(tmp_path / "r").certificate
    assert loaded is not None
    assert "facts" in failed(loaded.verify())


class Shy(CellTable):
    """It covers nothing."""

    def covers(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(x), dtype=torch.bool)


def test_a_look_up_that_covers_nothing_is_not_looked_at() -> None:
    held = certificate("yun, theorem 2")
    assert isinstance(held.result.fused, CellTable)
    nothing = replace(held.result, fused=Shy(**vars(held.result.fused)))
    (check,) = [c for c in replace(held, result=nothing).verify().checks if c.name == "look-up"]
    assert check.passed is None


@pytest.mark.parametrize("name", [name for name in RESULTS if "yun" in name])
@pytest.mark.parametrize("wrong", [{"ramp": 0.0}, {"end": 0.5}], ids=str)
def test_a_look_up_of_other_ramps_is_found(name: str, wrong: dict[str, float]) -> None:
    """Where it claims to speak, network and look-up are not the same."""
    found = failed(forge(RESULTS[name], look_up=wrong))
    assert found.keys() <= {"network", "look-up", "error", "measure"}
    assert found


def test_a_folder_without_the_hash_of_its_facts_is_refused(tmp_path: Path) -> None:
    RESULTS["gather, 2 tokens"].save(tmp_path / "r")
    held = certificate("gather, 2 tokens").to_dict()
    del held["facts_sha256"]
    tamper(tmp_path / "r", ("certificate",), held)
    with pytest.raises(FileProblem, match="facts_sha256"):
        aq.load(tmp_path / "r")


def slope_of_tent(lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
    """Of ReLU(0.1 - x), box by box."""
    return (lower[:, 0, 0] < 0.1).double()


ALL = {
    "gather": RESULTS["gather, 2 tokens"],
    "gather, adaptive": aq.approximate(
        lambda x: (0.1 - x).relu(), aq.Design(1), features=1, tol=0.01, method="gather",
        lipschitz=aq.Local(slope_of_tent),
    ),
    "gather, wide": aq.approximate(
        lambda x: x / 2, aq.Design(2, depth=2), features=1, tol=0.5, method="gather", lipschitz=0.5
    ),
    "yun, positions": RESULTS["yun, theorem 3"],
    "yun, repeats": RESULTS["yun, theorem 2"],
    "sum": build("plus-mean", 2, 1, 0.9, "sup", "sum", False),
    "partition": build("plus-mean", 2, 1, 0.9, "lp", "partition", True),
    "boltzmann": build("sort", 2, 1, 0.5, "lp", "boltzmann", True),
    "boltzmann, rounds": build_for(
        "sort", aq.Design(2, position=aq.Rotary()), 1, 0.9, "lp", "boltzmann"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_another_exceptional_measure_is_found_with_every_hash(name: str) -> None:
    """Told in the error as in the certificate, and every hash made to fit."""
    result = ALL[name]
    claim, measure = claim_of(result), result.error.exceptional
    for value in [measure * 0.99, measure * 1.01] if measure else [1e-15, 0.5]:
        forged = forge(result, claim=replace(claim, exceptional=value))
        assert failed(forged).keys() == {"measure"}


@pytest.mark.parametrize("name", ALL)
def test_another_depth_is_found_with_every_hash(name: str) -> None:
    result = ALL[name]
    for depth in (result.size.layers + 1, result.size.layers - 1):
        forged = forge(result, design=replace(result.design, depth=depth))
        assert "layers" in failed(forged)


def test_swapped_tensors_are_found(tmp_path: Path) -> None:
    """The weights of one network beside the certificate of another of the same shape."""
    RESULTS["gather, 2 tokens"].save(tmp_path / "r")
    other = aq.approximate(
        lambda x: torch.sin(6 * x.cumsum(1)), aq.Design(2), features=1, tol=0.8, curvature=72.0
    )
    assert other.size == RESULTS["gather, 2 tokens"].size
    other.save(tmp_path / "other")
    for file in ("weights.safetensors", "fused.safetensors"):
        data = (tmp_path / "other" / file).read_bytes()
        (tmp_path / "r" / file).write_bytes(data)
        about = json.loads((tmp_path / "r" / "about.json").read_text())
        about["sha256"][file] = hashlib.sha256(data).hexdigest()
        (tmp_path / "r" / "about.json").write_text(json.dumps(about))
        loaded = aq.load(tmp_path / "r")
        assert loaded.certificate is not None
        assert not loaded.certificate.verify()


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 2), st.sampled_from(["sup", "lp"]),
       st.sampled_from(["gather", "yun"]), st.booleans(), st.floats(0.2, 1.5))  # fmt: skip
def test_no_input_beats_upper(
    seed: int, tokens: int, features: int, norm: str, method: str, positions: bool, tol: float
) -> None:
    """Sums of waves a sin(w·x + c): L = Σ|a| Σ|w_i|, curvature Σ|a| |w|². Without positions every
    token is summed alike, so that they commute with permutations."""
    rng = generator(seed)
    waves = 3
    w = 6 * uniform(waves, tokens, features, rng=rng) - 3
    if not positions:
        w = w[:, :1].expand(-1, tokens, -1)
    a, c = uniform(waves, rng=rng) / waves, 6 * uniform(waves, rng=rng)

    def f(x: torch.Tensor) -> torch.Tensor:
        angle = torch.einsum("bnd,wnd->bw", x, w) + c
        return (angle.sin() @ a)[:, None, None].expand(-1, x.shape[1], 1).contiguous()

    try:
        result = aq.approximate(
            f, aq.Design(tokens, position=aq.Absolute() if positions else aq.NoPosition()),
            features=features, tol=tol, norm=norm, method=method, budget=100_000, seed=seed,
            lipschitz=float(a @ w.abs().sum((1, 2))),
            curvature=float(a @ w.square().sum((1, 2))),
        )  # fmt: skip
    except CannotApproximate:
        return
    step = result.facts.step
    x = uniform(4000, tokens, features, rng=rng)
    cell = (x[:2000] / step).floor()
    fraction = torch.stack([torch.full_like(cell, 0.5), x[2000:].sort(1).values.round(decimals=1)])
    x = torch.cat([x, ((cell + fraction[0]) * step), ((cell + fraction[1]) * step).clamp(max=1.0)])
    gap = (result(x[:4000]) - f(x[:4000])).abs().detach()
    assert result.error.upper is not None
    assert result.error.upper <= tol
    if norm == "sup":
        assert float((result(x) - f(x)).abs().max()) <= result.error.upper
    else:
        sample = gap.square().sum((1, 2))
        spread = 4 * float(sample.std()) / len(sample) ** 0.5
        assert float(sample.mean()) - spread <= result.error.upper**2
    assert result.certificate is not None
    if result.size.parameters < 30_000:
        assert result.certificate.verify(), result.certificate.verify()


def test_values_that_round_do_not_bend() -> None:
    """f has no curvature, and its values in float64 have a little."""

    def line(x: torch.Tensor) -> torch.Tensor:
        return 0.1 * x + 1 / 3

    result = aq.approximate(line, aq.Design(1), features=1, tol=1e-3, lipschitz=0.1)
    exact = replace(claim_of(result), curvature=0.0)
    values = result.fused.tensors()["values"].flatten()
    assert (values[2:] - 2 * values[1:-1] + values[:-2]).abs().max() > 0
    found = failed(forge(result, claim=exact))
    assert "error" not in found, found
