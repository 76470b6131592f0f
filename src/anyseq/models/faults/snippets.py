"""Python that shows a fault on the audited model, and needs nothing but torch and transformers."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

import torch

from anyseq.models.faults.subject import Subject

_SEEDS = range(10)
_COLUMNS = 80


def sequence(subject: Subject, x: torch.Tensor, name: str = "x") -> str:
    """A line that makes one sequence, by drawing it again if the vocabulary has no gaps."""
    rows, tokens = x.shape[:2]
    seed = next((one for one in _SEEDS if subject.draw(rows, one, tokens).equal(x)), None)
    rng = f"generator=torch.manual_seed({seed or 0})"
    if subject.features is not None:
        drawn = f"torch.randn({rows}, {tokens}, {subject.features}, {rng}, dtype=torch.float64)"
        return f"{name} = {drawn}\n{name} = {name}.to(next(model.parameters()).dtype)"
    low, high = int(subject.vocabulary[0]), int(subject.vocabulary[-1]) + 1
    if seed is None or high - low != len(subject.vocabulary):
        return f"{name} = torch.tensor({x.tolist()})"
    return f"{name} = torch.randint({low}, {high}, ({rows}, {tokens}), {rng})"


def narrow(code: str) -> str:
    """The same, with calls and comments of long lines on lines of their own."""
    return "".join(f"{part}\n" for line in code.splitlines() for part in _parts(line))


def _parts(line: str) -> list[str]:
    if len(line) <= _COLUMNS:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    code, mark, comment = line.partition("  # ")
    if mark:
        return [f"{indent}# {comment}", *_parts(code)]
    head, opened, rest = line.partition("(")
    inside, closed, tail = rest.rpartition(")")
    if not (opened and closed and inside):
        return [line]
    return [f"{head}(", *wrap(f"{inside},", _COLUMNS, initial_indent=f"{indent}    ",
            subsequent_indent=f"{indent}    "), f"{indent}){tail}"]  # fmt: skip


def call(subject: Subject, x: str = "x", output: bool = True, **told: str) -> str:
    """A call of the model on a sequence, and its further arguments, as expressions."""
    parts = []
    names = dict(subject.arguments(torch.zeros(0, 1), **dict.fromkeys(told, torch.zeros(0))))
    for name, value in names.items():
        if name == "input_ids" and subject.part == "decoder":
            parts.append(f"input_ids=torch.tensor([{subject.vocabulary[:11].tolist()}])")
        elif name in ("", "input_ids", "decoder_input_ids"):
            parts.append(f"{name}={x}".removeprefix("="))
        elif isinstance(value, bool) and name not in told:
            parts.append(f"{name}={value}")
    for what, text in told.items():
        named = subject.name_of(what) if what in ("real", "positions", "documents") else what
        parts.append(f"{named}={text}")
    return f"{subject.text}({', '.join(parts)}){subject.output * output}"


def changed_token(
    subject: Subject, x: torch.Tensor, pair: tuple[int, int], seed: int = 1, **told: Any
) -> str:
    """Output i changes with token j. seed: of the other content of token j."""
    i, j = pair
    other = subject.other(x, seed)[0, j]
    new = int(other) if subject.features is None else "torch.randn_like(x[0, 0])"
    before = f"{sequence(subject, x)}\nchanged = x.clone()\nchanged[0, {j}] = {new}"
    one, two = (call(subject, name, **told) for name in ("x", "changed"))
    return two_calls(before, one, two, f"[0, {i}]", f"0 if output {i} does not depend on token {j}")


def gradient_of_layer(
    subject: Subject, x: torch.Tensor, module: str, pair: tuple[int, int], expected: str
) -> str:
    """How a layer's output for token i depends on its input for token j."""
    i, j = pair
    handed = "x" if subject.features is None else "x.requires_grad_()"
    part = f'model.get_submodule("{module}")' if module else "model"
    return "\n".join([
        "import torch", "", sequence(subject, x), "met = {}", "", "",
        "def look(part, args, kwargs, out):",
        '    met["x"] = kwargs.get("hidden_states", *args[:1])',
        '    met["out"] = out if isinstance(out, torch.Tensor) else out[0]', "", "",
        f"part = {part}",
        "hook = part.register_forward_hook(look, with_kwargs=True)",
        "model.requires_grad_()",
        call(subject, handed, output=False),
        "hook.remove()",
        f'out = met["out"][0, {i}]',
        '(grad,) = torch.autograd.grad(out @ torch.randn_like(out), met["x"])',
        f"print(grad[0, {j}].abs().max().item())  # {expected}", "",
    ])  # fmt: skip


def swapped_tokens(subject: Subject, x: torch.Tensor, module: str, unplaced: bool) -> str:
    """How much the last output of an attention changes if two tokens before it change places, in
    its input. unplaced: whether it should use no positions."""
    expected = "0, but for rounding, if" if unplaced else "well above 0 unless"
    shown = f"print(float(change.abs().max()))  # {expected} it uses no positions"
    return "\n".join([
        "import torch", "", sequence(subject, x), "outs = []", "", "",
        "def swap(part, args, kwargs):",
        '    x = kwargs.get("hidden_states", *args[:1])',
        "    if outs:",
        "        x[:, [-3, -2]] = x[:, [-2, -3]]", "", "",
        "def look(part, args, out):",
        "    outs.append(out if isinstance(out, torch.Tensor) else out[0])", "", "",
        f'part = model.get_submodule("{module}")',
        "hooks = [part.register_forward_pre_hook(swap, with_kwargs=True),",
        "         part.register_forward_hook(look)]",
        "with torch.no_grad():",
        "    for _ in range(2):",
        f"        {call(subject, output=False)}",
        "for hook in hooks:",
        "    hook.remove()",
        "one, other = (out[0, -1] for out in outs)",
        "change = (one - other) / one.abs().max()",
        shown, "",
    ])  # fmt: skip


def two_calls(before: str, one: str, other: str, where: str, why: str) -> str:
    """Two calls whose outputs ought to be equal. before: lines that make what they need."""
    lines = [
        "import torch",
        "",
        before.strip(),
        "with torch.no_grad():",
        f"    one = {one}",
        f"    other = {other}",
        f"print((one{where} - other{where}).abs().max().item())  # {why}",
    ]
    return "\n".join(lines) + "\n"
