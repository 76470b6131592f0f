"""`anyseq.load`: a result from the folder that it was saved in."""

from __future__ import annotations

from pathlib import Path

from anyseq.construct.files.store import Saved, read
from anyseq.construct.results.certificate import Certificate
from anyseq.construct.results.result import Approximation


def load(folder: str | Path) -> Approximation:
    """The Approximation that `save` wrote; its outputs are the same to the bit."""
    return read(folder, _approximation)


def _approximation(saved: Saved) -> Approximation:
    result = Approximation(
        facts=saved.facts,
        error=saved.error,
        fused=saved.fused,
        _make_model=lambda: saved.model,
        _model=saved.model,
        _fingerprint=saved.model.fingerprint(),
    )
    if saved.certificate is not None:
        result._certificate = Certificate.from_dict(saved.certificate, result)
    return result
