"""`anyseq show`."""

from __future__ import annotations

from pathlib import Path

import torch

from anyseq.base import check_new
from anyseq.cli.design import DENSE, Described, Options
from anyseq.cli.terminal import say
from anyseq.construct import load
from anyseq.errors import FileProblem, InvalidArgument
from anyseq.nn import StackShape
from anyseq.verdicts import describe

_FORMATS = {".onnx": "onnx", ".pt2": "torch.export", ".safetensors": "safetensors"}


def show(
    folder: Path | None = None,
    /,
    *,
    design: Options = DENSE,
    tokens: int | None = None,
    input: str | None = None,
    picture: Path | None = None,
    export: Path | None = None,
) -> None:
    """Describe a saved network, or what it does to one input, or the layers of a design; draw or
    export it if asked.

    Parameters
    ----------
    folder
        What `anyseq approximate --out` wrote. Leave it out and describe a design with the options
        instead.
    tokens
        Tokens in a sequence of the design.
    input
        Numbers such as 0.1,0.7,0.3, the features of the first token first: what each stage of the
        network does to them is shown instead.
    picture
        A file to draw it into, .png, .svg or .pdf.
    export
        A new file for other tools, .onnx, .pt2 (torch.export) or .safetensors.
    """
    if picture is not None and picture.suffix not in (".png", ".svg", ".pdf"):
        raise FileProblem(f"--picture {picture}: expected a name ending in .png, .svg or .pdf")
    if picture is not None and not picture.parent.is_dir():
        raise FileProblem(f"--picture {picture}: {picture.parent} is not a folder")
    if folder is None:
        _show_design(design, tokens, input, picture, export)
        return
    described = design.given() + ["--tokens"] * (tokens is not None)
    if described:
        raise InvalidArgument(
            f"{folder}: {', '.join(described)} would describe a design of its own; leave out either"
        )
    if export is not None:
        if export.suffix not in _FORMATS:
            raise FileProblem(f"--export {export}: expected a name ending in {', '.join(_FORMATS)}")
        check_new(export, "--export")
    result = load(folder)
    thing = result if input is None else result.explain(_numbers(input, result.size))
    say(repr(thing))
    if picture is not None:
        from anyseq.pictures import save
        from anyseq.pictures import show as draw

        save(draw(thing), picture)
        say(f"drawn in {picture}")
    if export is not None:
        result.export(_FORMATS[export.suffix], export)
        say(f"exported to {export}")


def _show_design(
    described: Described,
    tokens: int | None,
    input: str | None,
    picture: Path | None,
    export: Path | None,
) -> None:
    if tokens is None:
        raise InvalidArgument(
            "--tokens is missing: say how many tokens a sequence of the design has, or give the "
            "folder of a network"
        )
    if input is not None or export is not None:
        option = "--export" if input is None else "--input"
        raise InvalidArgument(
            f"{option}: expected the folder of a network; a design has no weights"
        )
    design = described.at(tokens)
    say(describe(design))
    if picture is not None:
        from anyseq.pictures import save
        from anyseq.pictures import show as draw

        save(draw(design), picture)
        say(f"drawn in {picture}")


def _numbers(text: str, shape: StackShape) -> torch.Tensor:
    """(tokens, features)."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    wanted = shape.tokens * shape.in_features
    if len(numbers) != wanted:
        raise InvalidArgument(
            f"--input {text}: expected {wanted} numbers with commas between them, "
            f"{shape.tokens} tokens x {shape.in_features}"
        )
    return torch.tensor(numbers, dtype=torch.float64).view(shape.tokens, shape.in_features)
