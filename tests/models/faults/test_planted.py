"""Every planted fault is found, where it is, and shown; the same model without it passes.

What is found is checked here again by running the model, with nothing of the audit.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn

import anyseq as aq
from anyseq.models import Fault
from models.faults.page import MADE_WITH, PAGE, planted_fault, printed, row, section
from models.faults.planted.every import PLANTED
from models.faults.planted.fault import Planted

TEXT = PAGE.read_text()
EVERY = pytest.mark.parametrize(
    "planted", PLANTED, ids=lambda one: f"{one.family}-{one.name}".replace(" ", "-")
)
quiet = pytest.mark.filterwarnings("ignore")  # of transformers' own


@EVERY
@quiet
def test_it_is_found_and_shown(planted: Planted) -> None:
    model, declared = planted.make()
    found = aq.audit(model, declared)
    fault = planted_fault(planted, found)
    assert {one.rule for one in found.faults} - {planted.rule} == set(planted.follows)
    assert fault.repair is not None
    assert_wrong(planted, fault)
    for one in found.faults:
        faulty = printed(one.snippet, planted.make()[0])
        healthy = printed(one.snippet, planted.healthy()[0])
        assert_shown(one.snippet, faulty, healthy)
        if one is fault and MADE_WITH in TEXT:
            assert without_sizes(row(planted, fault)) in without_sizes(TEXT)
            said = section(planted, found, faulty, healthy)
            assert without_sizes(said) in without_sizes(TEXT)


@EVERY
@quiet
def test_without_it_the_model_passes(planted: Planted) -> None:
    model, declared = planted.healthy()
    found = aq.audit(model, declared)
    assert found.passed, [str(one) for one in found.faults]


def test_there_are_enough_of_them() -> None:
    assert len(PLANTED) >= 25
    assert len({(one.family, one.name) for one in PLANTED}) == len(PLANTED)


def test_the_page_has_each() -> None:
    names = re.findall(r"^### (.*)$", TEXT, flags=re.MULTILINE)
    assert names == [f"{one.family}: {one.name}" for one in PLANTED]
    assert (
        max(map(len, "\n".join(re.findall(r"```text(.*?)```", TEXT, re.DOTALL)).split("\n"))) <= 80
    )


def assert_wrong(planted: Planted, fault: Fault) -> None:
    """The pair is not as it ought to be, as seen by changing one token."""
    if fault.pair is None:
        assert planted.rule == "position"
        return
    i, j = fault.pair
    reaches = planted.rule == "gradient" and planted.allowed(i, j)
    if planted.rule in ("window", "future", "documents", "padding"):
        assert not planted.allowed(i, j)
    if planted.rule == "lost":
        assert planted.allowed(i, j)
    if planted.rule in ("window", "future", "lost", "gradient"):
        model = planted.make()[0]
        part = model.get_submodule(fault.module) if fault.layers else None
        felt = any(changes(model, part, i, j, seed, planted.tokens) for seed in range(30))
        assert felt == (planted.rule in ("window", "future") or reaches)


def changes(model: Any, part: nn.Module | None, i: int, j: int, seed: int, tokens: int) -> bool:
    """Whether output i of a part, or of the model, is another when token j is."""
    torch.manual_seed(seed)
    x = torch.randint(4, 100, (1, tokens))
    if not any(isinstance(one, nn.Embedding) for one in model.modules()):
        x = torch.randn(1, tokens, 16)
    other = x.clone()
    other[0, j] = torch.randint_like(x[0, j], 4, 100) if x.ndim == 2 else torch.randn(16)
    if part is None:
        one, two = (first(run(model, given)) for given in (x, other))
        return bool((one[0, i] - two[0, i]).abs().max() > 1e-6)
    outs: list[torch.Tensor] = []

    def noise(_: Any, args: Any, kwargs: Any) -> Any:
        handed = kwargs.get("hidden_states", *args[:1])
        changed = handed.clone()
        changed[0, j] += len(outs) * torch.randn(handed.shape[2])
        if "hidden_states" in kwargs:
            return args, kwargs | {"hidden_states": changed}
        return tuple(changed if one is handed else one for one in args), kwargs

    hooks = [
        part.register_forward_pre_hook(noise, with_kwargs=True),
        part.register_forward_hook(lambda _, args, out: outs.append(first(out))),
    ]
    for _ in range(2):
        run(model, x)
    for hook in hooks:
        hook.remove()
    return bool((outs[0][0, i] - outs[1][0, i]).abs().max() > 1e-6)


def run(model: Any, x: torch.Tensor) -> Any:
    """What a model gives, without a cache."""
    options = {"use_cache": False} if hasattr(model, "config") else {}
    with torch.no_grad():
        return model(x, **options)


def first(out: Any) -> torch.Tensor:
    """The tensor in it."""
    found: torch.Tensor = out[0] if isinstance(out, tuple) else getattr(out, "logits", out)
    return found


def without_sizes(text: str) -> str:
    """A text without its floats, which differ from machine to machine, in one line."""
    sizes = r"(?<=\(effect )[^)]*|(?<=prints )[^;]*|(?<=fault, )[^ ]*|(?<=\) \| )[^ ]*"
    return re.sub(sizes, "#", " ".join(text.split()))


def assert_shown(snippet: str, faulty: float, healthy: float) -> None:
    """What is printed of the faulty model, and of the healthy one, is as its comment says."""
    comment = re.findall(r"# (.*)", snippet)[-1]
    assert max(map(len, snippet.splitlines())) <= 88
    if comment.startswith("not 0"):
        assert faulty == 0 < healthy
    elif comment.startswith("well above 0"):
        assert faulty < 1e-6 < 1e-5 < healthy
    elif comment.startswith("NaN"):
        assert faulty != faulty
        assert healthy == 0
    else:
        assert comment.startswith("0")
        assert healthy < 2e-6 < 1e-5 < faulty
