"""Decoding with a cache gives what the whole sequence gives, also past the window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, cast

import torch

from anyseq.errors import UnsupportedModel
from anyseq.models.faults.entrance import first_apart, noted
from anyseq.models.faults.fault import Fault
from anyseq.models.faults.influence import influence
from anyseq.models.faults.rule import Asked, NotChecked, Note
from anyseq.models.faults.snippets import call, sequence
from anyseq.models.faults.subject import Subject, sequence_of
from anyseq.nn import Transformer, make_cache

_MEMORIES = ("past_key_values", "cache_params")
_ONCE, _TWICE = (8,), (5, 3)  # tokens of the first calls; after them one by one
_AT_ONCE = (
    "pass a prompt in one call: beside attention it has layers that ignore the cached state when "
    "several tokens follow it, as in every model of this family"
)

Make = Callable[[Subject], Any]


def caches(asked: Asked) -> Iterator[Fault | Note]:
    """Token by token, with every kind of cache that the model takes, against all at once."""
    subject = asked.subject
    if asked.claims.causal is not True:
        raise NotChecked("only causal models are decoded with a cache")
    if subject.part == "encoder":
        raise NotChecked("an encoder has no cache")
    x, looked = subject.draw(seed=5), False
    whole = subject.run(x)
    for (name, make), first in product(_kinds(subject), (_ONCE, _TWICE)):
        try:
            out = decoded(subject, x, make, first)
        except NoCache:
            continue
        except Exception as problem:
            if name != "its own cache":
                continue  # static caches are not for every model
            raise UnsupportedModel(f"decoding failed: {problem}") from problem
        looked = True
        effect = subject.apart(whole, out, x)[0]
        if first == _TWICE and (effect > 0).any() and _is_the_familys_way(asked, make):
            yield Note(_AT_ONCE)
        elif (effect > 0).any():
            yield _fault(subject, x, name, make, first, effect)
            return
    if not looked:
        raise NotChecked("it takes no known cache argument (past_key_values)")


class NoCache(Exception):
    """The model returns no cache."""


def _kinds(subject: Subject) -> Iterator[tuple[str, Make]]:
    if isinstance(subject.module, Transformer):
        yield "its own cache", lambda subject: make_cache(cast(Transformer, subject.module))
        return
    if not subject.hugging_face:
        return
    yield "its own cache", lambda subject: None
    if subject.module._can_compile_fullgraph:  # the library's word for models that take one
        yield "a static cache", _static


def _static(subject: Subject) -> Any:
    from transformers import StaticCache

    config: Any = subject.module.config
    return StaticCache(config=config, max_cache_len=subject.tokens)


def _is_the_familys_way(asked: Asked, make: Make) -> bool:
    """Whether it has layers beside attention, and transformers' own model of this config cannot
    continue with several tokens either."""
    if asked.healthy is None or all(one.attends is not False for one in asked.claims.layers):
        return False
    x = asked.healthy.draw(seed=5)
    try:
        out = decoded(asked.healthy, x, make, _TWICE)
    except Exception:  # its own model cannot be asked
        return False
    return bool((asked.healthy.differ(asked.healthy.run(x), out) > 0).any())


def decoded(
    subject: Subject,
    x: torch.Tensor,
    make: Make,
    first: tuple[int, ...],
    until: int | None = None,
    **told: Any,
) -> torch.Tensor:
    """The outputs of x, some tokens at a time: those of `first`, then one by one, up to the step
    with token `until`. told: which tokens are real, and their positions."""
    name = _memory(subject)
    memory, outs, start = make(subject), [], 0
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for count in _sizes(x.shape[1], first):
            end = start + count
            now = {what: one[:, 0 if what == "real" else start : end] for what, one in told.items()}
            given = subject.arguments(x[:, start:end], **now) | {name: memory}
            if subject.hugging_face:
                given["use_cache"] = True
            answer = subject.forward(given)
            memory = memory if name == "cache" else getattr(answer, name, None)
            out = sequence_of(answer)
            if memory is None or out is None:
                raise NoCache
            outs.append(out.double().cpu())
            start = end
            if until is not None and end > until:
                break
    return torch.cat(outs, 1)


def part_at_fault(
    subject: Subject,
    x: torch.Tensor,
    make: Make,
    first: tuple[int, ...],
    i: int,
    **told: Any,
) -> str:
    """The name of the part that gets the same input for token i with and without the cache, but
    gives another output; "" if none was found."""
    with noted(subject) as whole:
        subject.run(x, **told)
    with noted(subject) as steps:
        done = decoded(subject, x, make, first, until=i, **told).shape[1]
    last = steps[-len(whole) :]
    if not last:
        return ""
    places = (0, i), (0, i - done + last[-1].given.shape[1])
    return first_apart(subject, whole, last, places, subject.tolerance)


def _memory(subject: Subject) -> str:
    if isinstance(subject.module, Transformer):
        return "cache"
    found = next((one for one in _MEMORIES if one in subject.takes), None)
    if found is None:
        raise NoCache
    return found


def _sizes(tokens: int, first: tuple[int, ...]) -> list[int]:
    start = first if tokens > sum(first) else (1,)
    return [*start, *[1] * (tokens - sum(start))]


def _fault(
    subject: Subject, x: torch.Tensor, name: str, make: Make, first: tuple[int, ...],
    effect: torch.Tensor,
) -> Fault:  # fmt: skip
    """The first output that differs, and the token that it depends on in one run only."""
    i = int((effect > 0).int().argmax())
    with_cache = influence(subject, x, lambda rows: _by_row(subject, rows, make, first))
    without = influence(subject, x)
    apart = (with_cache - without)[i]
    only_one = apart.abs() * ((with_cache[i] > 0) != (without[i] > 0))
    j = int(only_one.argmax()) if (only_one > 0).any() else int(apart.abs().argmax())
    how = " (5 tokens at once, then 3, then one by one)" if first == _TWICE else ""
    which = ""
    if with_cache[i, j] == 0 and without[i, j] > 0:
        which = f": it does not depend on token {j}"
    elif with_cache[i, j] > 0 and without[i, j] == 0:
        which = f": it depends on token {j}, and does not without"
    return Fault(
        "cache", f"output {i} with {name}{how} differs from that of the whole sequence{which}",
        (), part_at_fault(subject, x, make, first, i), (i, j), float(effect[i]),
        _snippet(subject, x, i, name, first),
        "compare what the cache holds, the mask over its keys, and the positions of new tokens",
    )  # fmt: skip


def _by_row(
    subject: Subject, rows: torch.Tensor, make: Make, first: tuple[int, ...]
) -> torch.Tensor:
    if subject.batched:
        return decoded(subject, rows, make, first)
    return torch.cat([decoded(subject, row[None], make, first) for row in rows])


def _snippet(subject: Subject, x: torch.Tensor, i: int, name: str, first: tuple[int, ...]) -> str:
    memory = _memory(subject)
    own = "anyseq.nn.make_cache(model)" if memory == "cache" else "None"
    if name == "a static cache":
        own = f"transformers.StaticCache(config=model.config, max_cache_len={subject.tokens})"
    option = {memory: "memory"} | ({"use_cache": "True"} if subject.hugging_face else {})
    step = call(subject, "x[:, start : start + count]", output=False, **option)
    step = step.replace("use_cache=False, ", "").replace(", use_cache=False", "")
    output = subject.output or ""
    keep = "" if memory == "cache" else f"        memory = answer.{memory}\n"
    return (
        "import torch\n"
        + "import transformers\n" * ("transformers" in own)
        + "import anyseq\n" * ("anyseq" in own)
        + f"\n{sequence(subject, x)}\nmemory, start, parts = {own}, 0, []\n"
        f"with torch.no_grad():\n    whole = {call(subject)}\n"
        f"    for count in {_sizes(x.shape[1], first)}:\n        answer = {step}\n{keep}"
        f"        parts.append(answer{output})\n        start += count\n"
        f"print((whole - torch.cat(parts, 1))[0, {i}].abs().max().item())  # 0 if both agree\n"
    )
