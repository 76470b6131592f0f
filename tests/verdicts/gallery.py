"""The designs and verdicts of docs/gallery.md, read from its table."""

from __future__ import annotations

import re
from dataclasses import replace
from math import lcm
from pathlib import Path

import anyseq as aq
from anyseq.design import parse_layer
from anyseq.positions import parse_position

GALLERY = Path(__file__).parents[2] / "docs" / "gallery.md"
COLUMNS = [(norm, target) for target in ("all", "causal", "equivariant") for norm in ("sup", "lp")]
ANSWERS = {"yes": True, "no": False, "?": None}


def rows() -> list[tuple[str, aq.Design, dict[tuple[str, str], bool | None]]]:
    """(the line, its design, norm and target -> verdict)."""
    found = []
    for line in GALLERY.read_text().splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) != 4 + len(COLUMNS) or not cells[0].isdigit():
            continue
        verdicts = {
            column: ANSWERS[answer] for column, answer in zip(COLUMNS, cells[4:], strict=True)
        }
        found.append((", ".join(cells[:4]), design(*cells[:4]), verdicts))
    return found


def design(tokens: str, patterns: str, position: str, also: str) -> aq.Design:
    """A design from the first four columns."""
    options: dict[str, object] = {}
    for word in filter(None, also.split(", ")):
        if word in ("bos", "sinks"):
            options[word] = True
        elif word.startswith("depth "):
            options["depth"] = int(word.split()[1])
        elif word == "no feed-forward":
            options["feedforward"] = False
        elif word.startswith("final "):
            options["final_norm"] = word.split()[1]
        elif word.endswith("-norm"):
            options["block_norm"] = word.removesuffix("-norm")
        elif word.startswith("read at "):
            place = word.removeprefix("read at ")
            options["readout"] = int(place) if place.isdigit() else place
        elif word == "head":
            options["head"] = True
        elif word == "ids":
            options["domain"] = "ids"
        else:
            options["prob_map"] = word
    written = [parse_layer(part.strip("` ")) for part in patterns.split(" then ")]
    told = [parse_position(part) for part in position.split(" then ")]
    if len(told) == 1 and all(layer.attends for layer in written):
        cycle = tuple(layer.pattern for layer in written)
        return aq.Design(int(tokens), cycle, *told, **options)  # type: ignore[arg-type]
    own = {name: options.pop(name) for name in ("sinks", "prob_map") if name in options}
    fed = options.pop("feedforward", True)
    written = [replace(layer, feedforward=fed) for layer in written]  # type: ignore[arg-type]
    # of a position one part may act at the input, the other in the layers that are attention
    split = [aq.Design(1, position=one) for one in told]
    inside = [one.layer_cycle[0].position for one in split]
    layers = [
        replace(layer, position=inside[i % len(inside)], **own) if layer.attends else layer  # type: ignore[arg-type]
        for i in range(lcm(len(written), len(inside)))
        for layer in [written[i % len(written)]]
    ]
    at_input = split[0].input_position
    return aq.Design(int(tokens), layers=layers, position=at_input, **options)  # type: ignore[arg-type]
