"""The attention functions that a model can run with agree."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch

from anyseq.errors import AnyseqError
from anyseq.models.faults.fault import Fault
from anyseq.models.faults.influence import influence
from anyseq.models.faults.rule import Asked, NotChecked, Note
from anyseq.models.faults.snippets import call, sequence
from anyseq.models.faults.subject import Subject

_ALWAYS = ("eager", "sdpa")
OURS = "anyseq"


def implementations(asked: Asked) -> Iterator[Fault | Note]:
    """The model's own attention function, eager, sdpa and anyseq's give the same."""
    subject = asked.subject
    if not subject.hugging_face:
        raise NotChecked("only transformers' models have several attention functions")
    if subject.part:
        raise NotChecked("not done for the parts of an encoder-decoder")
    from anyseq.hf import has_gain, patterns_on

    if any(patterns_on(subject.module) or ()) or has_gain(subject.module):
        raise NotChecked("its pattern or gain exists in anyseq's attention only")
    x = subject.draw(seed=6)
    own: Any = subject.module.config
    now = own._attn_implementation
    plain = subject.run(x)
    others = [one for one in (*_ALWAYS, OURS) if one != now]
    ran, apart = [], []
    for name in others:
        try:
            other = _with(subject, name)
            out = other.run(x)
        except (Exception, AnyseqError):  # a model need not have all of them
            continue
        ran.append(name)
        effect = subject.apart(plain, out, x)[0]
        if (effect > 0).any():
            apart.append((name, other, effect))
    if not ran:
        raise NotChecked(f"it runs with its own attention function only ({now})")
    if apart:
        name, other, effect = apart[0]
        also = [one for one, *_ in apart[1:]]
        yield _fault(subject, other, x, (now, name, *also), effect)


def _with(subject: Subject, name: str) -> Subject:
    """The same with another attention function, on a copy."""
    module: Any = deepcopy(subject.module)
    if name == OURS:
        from anyseq.hf import use

        module = use(module).eval()
    else:
        module.set_attn_implementation(name)
        if module.config._attn_implementation != name:
            raise NotChecked(name)
    return replace(subject, module=module, stack=module)


def _fault(
    subject: Subject, other: Subject, x: torch.Tensor, names: tuple[str, ...], effect: torch.Tensor
) -> Fault:
    """The output that differs most, and the token that it depends on with one of the two only.
    names: of the model's own function, of the other, and of more that differ from it."""
    now, name, *also = names
    i = int(effect.argmax())
    one, two = influence(subject, x), influence(other, x)
    only_one = (one - two).abs() * ((one > 0) != (two > 0))
    if (only_one > 0).any():
        at = int(only_one.argmax())
        i, j = at // len(one), at % len(one)
        sees, blind = (now, name) if one[i, j] > 0 else (name, now)
        how = f": it depends on token {j} with {sees} and does not with {blind}"
    else:
        j, how = int((one - two)[i].abs().argmax()), ""
    change = f"model.set_attn_implementation({name!r})"
    if name == OURS:
        change = "aq.hf.use(model)"
    lines = [
        "import torch", *["import anyseq as aq"] * (name == OURS), "",
        sequence(subject, x), "with torch.no_grad():", f"    one = {call(subject)}",
        f"    {change}", f"    other = {call(subject)}",
        f"print((one - other)[0, {i}].abs().max().item())  # 0 if both agree",
    ]  # fmt: skip
    return Fault(
        "implementations",
        f"output {i} with {now} differs from that with {in_words([name, *also])}{how}", (), "",
        (i, j), float(effect.max()), "\n".join(lines) + "\n",
        f"compare the masks that {now} and {name} get, for each kind of layer",
    )  # fmt: skip


def in_words(names: list[str]) -> str:
    """'a, b and c'."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
