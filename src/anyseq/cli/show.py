"""`anyseq show`."""

from __future__ import annotations

from pathlib import Path

from anyseq.cli.design import DENSE, Described, Options
from anyseq.cli.drawn import check_drawn, draw
from anyseq.cli.explain import numbers
from anyseq.cli.terminal import note, say
from anyseq.errors import FileProblem, InvalidArgument

# What is slow to import is imported where it is used, so that --help is not.

_FORMATS = {".onnx": "onnx", ".pt2": "torch.export", ".safetensors": "safetensors"}


def show(
    folder: Path | None = None,
    /,
    *,
    design: Options = DENSE,
    tokens: int | None = None,
    input: str | None = None,
    picture: Path | None = None,
    animate: Path | None = None,
    export: Path | None = None,
) -> None:
    """Describe a saved network, or the layers of a design; draw, animate or export it if asked.

    Parameters
    ----------
    folder
        What `anyseq approximate --out` wrote. Leave it out and describe a design with the options
        instead.
    tokens
        Tokens in a sequence of the design.
    input
        Deprecated: use `anyseq explain`.
    picture
        A file to draw it into, .png, .svg or .pdf.
    animate
        Of a design: a file for an animation, .gif or .html, of which tokens each token reaches and
        which equal tokens differ, layer by layer.
    export
        A new file for other tools, .onnx, .pt2 (torch.export) or .safetensors.
    """
    check_drawn(picture, animate, tokens)
    if folder is None:
        _show_design(design, tokens, input, picture, animate, export)
        return
    described = design.given() + ["--tokens"] * (tokens is not None)
    if described:
        raise InvalidArgument(
            f"{folder}: {', '.join(described)} would describe a design of its own; leave out either"
        )
    if animate is not None:
        raise InvalidArgument(
            f"--animate {animate}: expected a design; what a network does to an input is animated "
            "by anyseq explain"
        )
    from anyseq.base import check_new
    from anyseq.construct import load

    if export is not None:
        if export.suffix not in _FORMATS:
            raise FileProblem(f"--export {export}: expected a name ending in {', '.join(_FORMATS)}")
        check_new(export, "--export")
    result = load(folder)
    thing = result if input is None else result.explain(numbers(input, result.size))
    if input is not None:
        note("show --input is deprecated and will be removed: use anyseq explain FOLDER --input X")
    say("\n".join([repr(thing), *draw(thing, picture)]))
    if export is not None:
        result.export(_FORMATS[export.suffix], export)
        say(f"exported to {export}")


def _show_design(
    described: Described,
    tokens: int | None,
    input: str | None,
    picture: Path | None,
    animate: Path | None,
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
    from anyseq.verdicts import describe

    design = described.at(tokens)
    say("\n".join([describe(design), *draw(design, picture, animate)]))
