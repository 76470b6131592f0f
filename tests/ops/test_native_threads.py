"""The native kernel: any number of threads, several callers, forked processes, and nothing left
changed; and the same for every instruction set."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import anyseq as aq
from anyseq.base import share_out
from anyseq.ops.native import heads, library
from ops.cases import CALLS, assert_same_result, random, run, table

LOADED = library.loaded()
assert isinstance(LOADED, library.Native), LOADED
NATIVE: library.Native = LOADED
PATTERNS = [aq.Window(20), aq.Star(9), aq.Strided(11), aq.BigBird(16), None]


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def step(pattern: aq.Pattern | None, n: int = 700, backend: str = "native") -> list[torch.Tensor]:
    """Output, log-sum-exp and all gradients: long enough that heads are cut into slices."""
    q, k, v = (random(2, heads, n, 8, seed=heads).requires_grad_() for heads in (4, 2, 2))
    tables = [random(4, 2 * n - 1, seed=seed).requires_grad_() for seed in (4, 5)]
    bias, gain = (aq.Toeplitz(one) for one in tables)
    out, lse = aq.attention(
        q, k, v, pattern=pattern, bias=bias, gain=gain, enable_gqa=True, return_lse=True,
        dropout_p=0.25, backend=backend,
    )  # fmt: skip
    learned = [q, k, v, *tables]
    return [out, lse, *torch.autograd.grad(out.square().sum() + lse.sum(), learned)]


def seeded(pattern: aq.Pattern | None, backend: str = "native") -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [part.detach() for part in step(pattern, backend=backend)]


@pytest.mark.parametrize("backend", ["native", "tiles"])
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_the_same_bits_whatever_the_threads(
    pattern: aq.Pattern | None, backend: str, three_threads: None
) -> None:
    many = seeded(pattern, backend)
    again = seeded(pattern, backend)
    torch.set_num_threads(1)
    for other in (again, seeded(pattern, backend)):
        assert all(torch.equal(one, two) for one, two in zip(many, other, strict=True))


def test_several_callers_at_once(three_threads: None) -> None:
    expected = {pattern: step_without_dropout(pattern) for pattern in PATTERNS}
    with ThreadPoolExecutor(4) as pool:
        for pattern, found in pool.map(lambda p: (p, step_without_dropout(p)), PATTERNS * 3):
            assert all(map(torch.equal, found, expected[pattern]))


def step_without_dropout(pattern: aq.Pattern | None) -> list[torch.Tensor]:
    q, k, v = (random(1, 2, 700, 8, seed=seed).requires_grad_() for seed in (1, 2, 3))
    out = aq.attention(q, k, v, pattern=pattern, backend="native")
    return [out.detach(), *torch.autograd.grad(out.square().sum(), (q, k, v))]


def _in_a_fork(results: Any) -> None:
    torch.set_num_threads(3)
    results.put([part.numpy() for part in step_without_dropout(aq.Star(9))])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_after_a_fork(three_threads: None) -> None:
    """Its threads stayed with the parent; the child gets others."""
    expected = step_without_dropout(aq.Star(9))
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_in_a_fork, args=(results,))
    child.start()
    found = results.get(timeout=60)
    child.join(timeout=60)
    assert child.exitcode == 0
    assert all(
        torch.equal(torch.from_numpy(one), two) for one, two in zip(found, expected, strict=True)
    )


class _Attended(torch.utils.data.Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return step_without_dropout(PATTERNS[index])[0]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_in_the_workers_of_a_data_loader() -> None:
    expected = [step_without_dropout(pattern)[0] for pattern in PATTERNS[:4]]
    loader = torch.utils.data.DataLoader(
        _Attended(), batch_size=None, num_workers=2, multiprocessing_context="fork"
    )
    assert all(map(torch.equal, loader, expected))


def test_inside_hooks_and_from_the_threads_of_autograd() -> None:
    x = random(1, 2, 90, 4).requires_grad_()
    seen = []

    def hook(gradient: torch.Tensor) -> None:
        with torch.enable_grad():
            inner = x.detach().requires_grad_()
            aq.attention(
                inner, inner, inner, pattern=aq.Window(3), backend="native"
            ).sum().backward()
            seen.append(inner.grad)

    out = aq.attention(x, x, x, pattern=aq.Window(3), backend="native")
    out.register_hook(hook)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(out.sum().backward).result()
    assert torch.equal(seen[0], x.grad)  # type: ignore[arg-type]


def test_nothing_is_left_changed(three_threads: None) -> None:
    """Threads of torch and of its BLAS, here and in other threads, and how subnormals count."""
    torch_library: Any = ctypes.CDLL(f"{Path(torch.__file__).parent}/lib/libtorch_cpu.so")
    maximum = torch_library.mkl_get_max_threads
    tiny = torch.full((1,), 1e-310, dtype=torch.float64)

    def state() -> tuple[Any, ...]:
        return torch.get_num_threads(), maximum(), torch_library.omp_get_max_threads(), tiny * 0.5

    with ThreadPoolExecutor(1) as other:
        before = state(), other.submit(state).result()
        for backend in ("native", "tiles"):
            step(aq.Star(9), backend=backend)
        assert (state(), other.submit(state).result()) == before


@pytest.mark.parametrize("level", ["base", *library.levels()])
def test_every_instruction_set(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    suffix = Path(NATIVE.library._name).name.split(".", 1)[1]
    path = Path(library.__file__).with_name(f"_{level}.{suffix}")
    other = library.Native(level, library.opened(path), NATIVE.openmp)
    monkeypatch.setattr(heads, "loaded", lambda: other)
    for name in ("bias and gain, strided", "softcap", "documents", "tensors, gathered"):
        call = CALLS[name](129)
        eps = torch.finfo(torch.float64).eps
        assert_same_result(run(call, "native"), run(call, "reference"), 258, eps, name)


def test_without_openmp_threads_are_our_own(
    three_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = step_without_dropout(aq.Star(9))
    monkeypatch.setattr(heads, "loaded", lambda: NATIVE._replace(openmp=0))
    assert all(map(torch.equal, step_without_dropout(aq.Star(9)), expected))


@pytest.mark.parametrize(
    ("reason", "say"),
    [
        ("off", "ANYSEQ_NATIVE=0"),
        ("not compiled", "not compiled"),
        ("broken", "does not load"),
    ],
)
def test_without_it_the_operators_of_torch_serve(
    reason: str, say: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if reason == "off":
        monkeypatch.setenv("ANYSEQ_NATIVE", "0")
    else:
        monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
        if reason == "broken":
            suffix = Path(NATIVE.library._name).name.split(".", 1)[1]
            (tmp_path / f"_base.{suffix}").write_text("not a library")
    found = library.load()
    assert isinstance(found, str)
    assert say in found
    monkeypatch.setattr(library, "_MISSING", found)
    q = random(1, 2, 1000, 4)
    plan = aq.attention_plan(q, q, q, pattern=aq.Window(3))
    assert plan.backend == "tiles"
    assert say in plan.refused["native"]
    with pytest.raises(aq.errors.InvalidArgument, match="there is no native kernel here"):
        aq.attention(q, q, q, backend="native")


def test_it_can_be_turned_off() -> None:
    code = (
        "import torch, anyseq as aq; q = torch.ones(1, 1, 900, 4);"
        "print(aq.attention_plan(q, q, q, pattern=aq.Window(3)).backend)"
    )
    environment = os.environ | {"ANYSEQ_NATIVE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "tiles"


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
    """With values of 1 the output of a row is the share of the weights that are kept, over 1-p."""
    torch.manual_seed(3)
    q, v = torch.zeros(4, 8, 512, 4), torch.ones(4, 8, 512, 4)
    for p in (0.1, 0.5, 0.9):
        out = aq.attention(q, q, v, dropout_p=p, backend="native")[..., 0]
        spread = (p / (1 - p) / 512) ** 0.5
        assert abs(float(out.mean()) - 1) < 5 * spread / out.numel() ** 0.5
        assert 0.97 < float(out.std()) / spread < 1.03
        # neighbours, heads and batch rows have nothing to do with each other
        for one, other in ((out[:, :, 1:], out[:, :, :-1]), (out[:, 1:], out[:, :-1])):
            both = torch.corrcoef(torch.stack([one.flatten(), other.flatten()]))
            assert abs(float(both[0, 1])) < 5 / one.numel() ** 0.5


def test_share_out_gives_errors_back(three_threads: None) -> None:
    def work(number: int) -> None:
        if number == 5:
            raise ValueError("five")

    with pytest.raises(ValueError, match="five"):
        share_out(work, 9, 3)
    done: list[int] = []
    share_out(done.append, 20, 3)
    assert sorted(done) == list(range(20))


@pytest.mark.parametrize("backend", ["native", "tiles"])
def test_old_names_are_told_of(backend: str) -> None:
    q = random(1, 1, 9, 4)
    for old in ("block", "tiled", "short"):
        with pytest.warns(DeprecationWarning, match=f"backend='{old}' is now"):
            found = aq.attention(q, q, q, pattern=aq.Window(2), backend=old)
        torch.testing.assert_close(
            found, aq.attention(q, q, q, pattern=aq.Window(2), backend=backend)
        )


def test_terms_shared_by_batch_rows_are_summed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "_KEPT", 2 * 2 * 31 * 31)  # two batch rows at a time
    q, k, v = (random(5, 2, 31, 3, seed=seed).requires_grad_() for seed in (1, 2, 3))
    bias = random(1, 2, 31, 31, seed=4).requires_grad_()
    gain = table(31)
    wanted = [q, k, v, bias, gain.coefficients.requires_grad_()]
    found = []
    for backend in ("native", "reference"):
        out = aq.attention(q, k, v, bias=bias, gain=gain, backend=backend)
        found.append(torch.autograd.grad(out.square().sum(), wanted))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-11)


def test_masked_pairs_of_one_slice_are_left_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub inside a window is masked in the tiles of the one and counted in those of the other:
    who has nothing to add to a shared gradient does not touch it."""
    pattern = aq.Window(30) | aq.Global(tuple(range(0, 300, 20)))
    q, k, v = (random(1, 1, 300, 4, seed=seed) for seed in (1, 2, 3))
    bias = torch.zeros(1, 1, 300, 300, dtype=torch.float64, requires_grad=True)
    # -0 + 0 is 0: the sign says what was touched
    marked = torch.zeros_like(bias)
    marked.fill_(-0.0)
    monkeypatch.setattr(heads, "_room", lambda term, *rest: None if term is None else marked)
    monkeypatch.setattr(heads, "_add", lambda *arguments: None)
    aq.attention(q, k, v, pattern=pattern, bias=bias, backend="native").sum().backward()
    outside = ~pattern.mask(300)
    assert bool(torch.signbit(marked[0, 0][outside]).all())
    assert not bool(torch.signbit(marked[0, 0][~outside]).all())


_FORKED = """
import os, torch, anyseq as aq
torch.set_num_threads(2)
torch.randn(4_000_000).exp_()  # torch's threads, and none of the kernel's
q = torch.randn(1, 4, 128, 8)
aq.attention_plan(q, q, q, pattern=aq.Window(64), backend="native")  # torch's would hang in a fork
child = os.fork()
if child == 0:
    aq.attention(q, q, q, pattern=aq.Window(64), backend="native")
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""


def test_a_fork_before_the_first_call() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _FORKED],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.strip() == "0"
