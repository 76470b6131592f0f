"""Error and size against the tolerance asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from anyseq.construct import Approximation
from anyseq.pictures.style import BAND, COLOURS, TARGET, figure


def tolerance_figure(results: Mapping[str, Sequence[Approximation]]) -> Figure:
    """By label, results with falling tolerance: [measured, proven] error, and parameters."""
    made, (errors, sizes) = figure(2, width=4.6, share="x")
    for (label, series), colour in zip(results.items(), COLOURS, strict=False):
        tolerances = [result.facts.tol for result in series]
        lower = [result.error.lower for result in series]
        upper = [result.error.upper or math.nan for result in series]
        errors.fill_between(tolerances, lower, upper, color=colour, alpha=BAND, lw=0)
        errors.plot(tolerances, upper, color=colour, lw=1.6, marker="v", ms=4, label=label)
        errors.plot(tolerances, lower, color=colour, lw=1.0, marker="^", ms=4)
        sizes.plot(
            tolerances, [result.size.parameters for result in series],
            color=colour, lw=1.6, marker="o", ms=4, label=label,
        )  # fmt: skip
    errors.plot(tolerances, tolerances, color=TARGET, lw=0.8, ls=":", label="tolerance")
    for panel in (errors, sizes):
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xticks(tolerances, [f"{tol:g}" for tol in tolerances])
        panel.set_xlabel("tolerance")
        panel.legend(fontsize=8, frameon=False)
    errors.invert_xaxis()
    errors.set_title("error: proven (▼) and measured (▲) bounds", fontsize=10)
    sizes.set_title("parameters", fontsize=10)
    return made
