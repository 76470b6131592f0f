"""Python that shows a fault on the audited model, and needs nothing but torch and transformers."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import torch

from anyseq.models.faults.subject import Subject


def sequence(subject: Subject, x: torch.Tensor, name: str = "x") -> str:
    """A line that makes one sequence."""
    if subject.features is None:
        return f"{name} = torch.tensor({x.tolist()})"
    shape = ", ".join(map(str, x.shape))
    return f"{name} = torch.randn({shape}, dtype=next(model.parameters()).dtype)"


def call(subject: Subject, x: str = "x", output: bool = True, **told: str) -> str:
    """A call of the model on a sequence, and what else it is told, as expressions."""
    parts = []
    names = dict(subject.arguments(torch.zeros(0, 1), **dict.fromkeys(told, torch.zeros(0))))
    for name, value in names.items():
        if name == "input_ids" and subject.part == "decoder":
            parts.append(f"input_ids=torch.tensor([{subject.vocabulary[:11].tolist()}])")
        elif name in ("", "input_ids", "decoder_input_ids"):
            parts.append(f"{name}={x}".removeprefix("="))
        elif isinstance(value, bool):
            parts.append(f"{name}={value}")
    for what, text in told.items():
        named = subject.name_of(what) if what in ("real", "positions", "documents") else what
        parts.append(f"{named}={text}")
    return f"{subject.text}({', '.join(parts)}){subject.output * output}"


def changed_token(subject: Subject, x: torch.Tensor, pair: tuple[int, int], **told: Any) -> str:
    """Output i changes with token j."""
    i, j = pair
    other = subject.other(x)[0, j]
    new = int(other) if subject.features is None else "torch.randn_like(x[0, 0])"
    return _code(f"""
        import torch

        {sequence(subject, x)}
        changed = x.clone()
        changed[0, {j}] = {new}
        with torch.no_grad():
            one, other = ({call(subject, "x", **told)} for x in (x, changed))
        print((one - other)[0, {i}].abs().max().item())  # 0 if output {i} does not see token {j}
    """)


def gradient_of_layer(
    subject: Subject, x: torch.Tensor, module: str, pair: tuple[int, int], expected: str
) -> str:
    """How what a layer gives for token i depends on what it is handed for token j."""
    i, j = pair
    return _code(f"""
        import torch

        {sequence(subject, x)}
        met = {{}}


        def first(values):
            return next(v for v in values if isinstance(v, torch.Tensor) and v.ndim == 3)


        def before(part, args, kwargs):
            met["x"] = first([kwargs.get("hidden_states"), *args, *kwargs.values()])
            met["x"].retain_grad()


        def after(part, args, kwargs, out):
            met["out"] = out if isinstance(out, torch.Tensor) else first(out)


        part = model.get_submodule("{module}")
        hooks = [
            part.register_forward_pre_hook(before, with_kwargs=True),
            part.register_forward_hook(after, with_kwargs=True),
        ]
        model.requires_grad_()
        {call(subject, "x" if subject.features is None else "x.requires_grad_()", output=False)}
        torch.manual_seed(0)
        met["out"][0, {i}].mul(torch.randn_like(met["out"][0, {i}])).sum().backward()
        print(met["x"].grad[0, {j}].abs().max().item())  # {expected}
        for hook in hooks:
            hook.remove()
    """)


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


def _code(text: str) -> str:
    return dedent(text).strip() + "\n"
