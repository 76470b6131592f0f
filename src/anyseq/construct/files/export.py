"""An Approximation for other tools: ONNX, torch.export, safetensors.

The *compact* form is the look-up behind `result(x)`, a graph of a few dozen operators whatever the
depth of the network (for the Kuhn table: floor, sort, gather, weighted sum). It is the same
function as the network wherever the look-up speaks; elsewhere, on a ramp or outside [0, 1], it
gives NaN rather than a number that the network would not give. The *network* is the stack itself,
block by block, for every input.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from anyseq.base import check_new, one_of
from anyseq.construct.files.store import describe
from anyseq.construct.network.built import Built
from anyseq.construct.tables.fused import Fused, fused_from
from anyseq.errors import FileProblem, InvalidArgument, MissingExtra

COMPACT, NETWORK = "compact", "network"

MOST_LAYERS = 64
"""The graph of separate blocks, and the time to convert it, grow with the depth. A rough guide, two
cores, "yun" to ONNX: 15 s for 52 layers, 40 s for 164; "gather": 11 s for 61."""

_KEY = "anyseq"  # under which all three formats carry the facts
_CONVERTER = "torch.onnx._internal.exporter._registration"  # whose log it is
_ONE_FILE = 1 << 30  # bytes of tensors; a protobuf file ends at 2 GB


class Compact(nn.Module):
    """The look-up as a module: its tensors are buffers, its facts constants."""

    def __init__(self, fused: Fused) -> None:
        super().__init__()
        self._facts = fused.facts()
        for name, tensor in fused.tensors().items():
            self.register_buffer(name, tensor)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, features) -> (batch, tokens, out_features); NaN where the look-up does
        not apply."""
        fused = fused_from(self._facts, dict(self.named_buffers()))
        covered = fused.covers(x)[:, None, None]
        # 0, which every look-up covers, stands in for what would lead outside the table
        return torch.where(covered, fused(torch.where(covered, x, 0.0)), torch.nan)


def export(result: Built, format: str, file: str | Path, what: str | None) -> None:
    """Write the file, whole or not at all."""
    ending, write = _FORMATS[one_of("format", format, _FORMATS)]
    if format == "safetensors" and what is not None:
        raise InvalidArgument(f"what={what!r}: a safetensors file holds both forms; leave it out")
    one_of("what", what or COMPACT, (COMPACT, NETWORK))
    if what == NETWORK and result.size.layers > MOST_LAYERS:
        raise InvalidArgument(
            f"what='network': its graph would have {result.size.layers:,} layers one by one; at "
            f"most {MOST_LAYERS} are converted. Use what='compact', or format='safetensors'"
        )
    if format == "onnx":
        _check_onnx()
    target = check_new(file, "file")
    if target.suffix != ending:
        raise InvalidArgument(f"file={str(file)!r}: expected a name ending in {ending}")
    try:
        with tempfile.TemporaryDirectory(prefix=".anyseq-", dir=target.parent) as place:
            write(result, Path(place) / target.name, what or COMPACT)
            for written in Path(place).iterdir():
                os.chmod(written, 0o644)
                shutil.move(written, target.parent / written.name)
    except OSError as problem:
        raise FileProblem(f"file={str(target)!r} cannot be written: {problem}") from problem


def _program(result: Built, what: str) -> torch.export.ExportedProgram:
    """The graph of one form, for batches of any size."""
    module = Compact(result.fused) if what == COMPACT else result.model
    shape = result.size
    example = torch.full((2, shape.tokens, shape.in_features), 0.5, dtype=torch.float64)
    training = module.training
    try:
        return torch.export.export(
            module.eval(), (example,), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},)
        )
    finally:
        module.train(training)


def _write_onnx(result: Built, file: Path, what: str) -> None:
    with warnings.catch_warnings(), _no_word_of_torchvision():
        warnings.simplefilter("ignore", FutureWarning)  # torch's own, about its tree specs
        program = _program(result, what).run_decompositions(_PLAINER)
        made = torch.onnx.export(
            program,
            dynamo=True,
            verbose=False,
            input_names=["x"],
            output_names=["y"],
            dynamic_shapes=({0: "batch"},),
        )
    assert made is not None
    for node in made.model.graph:
        node.metadata_props.clear()  # where torch traced it: this machine's files
    made.model.metadata_props[_KEY] = _facts(result, what)
    size = sum(t.nbytes for t in program.state_dict.values())
    made.save(file, external_data=size > _ONE_FILE)


@contextmanager
def _no_word_of_torchvision() -> Iterator[None]:
    """torch logs, one by one, the operators of torchvision that it must do without if that is not
    installed. No graph here has any."""
    log = logging.getLogger(_CONVERTER)

    def matters(record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("torchvision is not installed")

    log.addFilter(matters)
    try:
        yield
    finally:
        log.removeFilter(matters)


def _write_torch(result: Built, file: Path, what: str) -> None:
    facts = {f"{_KEY}.json": _facts(result, what)}
    torch.export.save(_program(result, what), file, extra_files=facts)


def _write_safetensors(result: Built, file: Path, what: str) -> None:
    weights = {f"network.{name}": t.detach() for name, t in result.model.state_dict().items()}
    table = {f"compact.{name}": tensor for name, tensor in result.fused.tensors().items()}
    tensors = {name: tensor.contiguous() for name, tensor in (weights | table).items()}
    save_file(tensors, file, metadata={_KEY: _facts(result, "network and compact")})


_FORMATS: Mapping[str, tuple[str, Callable[[Built, Path, str], None]]] = {
    "onnx": (".onnx", _write_onnx),
    "torch.export": (".pt2", _write_torch),
    "safetensors": (".safetensors", _write_safetensors),
}


def _facts(result: Built, what: str) -> str:
    facts: dict[str, Any] = describe(result) | {
        "format": "anyseq.export",
        "version": 1,
        "what": what,
        "compact": result.fused.facts(),
    }
    return json.dumps(facts, allow_nan=False)


def _check_onnx() -> None:
    for package in ("onnx", "onnxscript"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(
                f"format='onnx' needs {package}, which is not installed: "
                'pip install "anyseq[export]"'
            )


def _search(keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """How many of the increasing keys are below each value: `searchsorted`, which ONNX lacks, by
    halving, in as many steps as the number of keys has bits."""
    below = torch.zeros_like(values)
    for bit in reversed(range(len(keys).bit_length())):
        further = below + (1 << bit)
        inside = (further - 1).clamp(max=len(keys) - 1)
        below = torch.where((further <= len(keys)) & (keys[inside] < values), further, below)
    return below


_PLAINER: dict[Any, Callable[..., Any]] = {torch.ops.aten.searchsorted.Tensor: _search}
