"""The experiments by name."""

from __future__ import annotations

from collections.abc import Mapping

from anyseq.experiments.experiment import AnyExperiment
from anyseq.experiments.position_identification import PositionIdentification

EXPERIMENTS: Mapping[str, AnyExperiment] = {
    experiment.name: experiment for experiment in (PositionIdentification(),)
}
