"""The experiments by name."""

from __future__ import annotations

from anyseq.experiments.classification import Classification
from anyseq.experiments.constant_input import ConstantInput
from anyseq.experiments.copying import Copying
from anyseq.experiments.even_tokens import EvenTokens
from anyseq.experiments.experiment import AnyExperiment
from anyseq.experiments.language_model import LanguageModel
from anyseq.experiments.masked_lm import MaskedLM
from anyseq.experiments.overhead import Overhead
from anyseq.experiments.position_identification import PositionIdentification
from anyseq.experiments.translation import Translation
from anyseq.experiments.zinc import Zinc

EXPERIMENTS: dict[str, AnyExperiment] = {
    experiment.name: experiment
    for experiment in (
        PositionIdentification(),
        EvenTokens(),
        ConstantInput(),
        Copying(),
        LanguageModel(),
        MaskedLM(),
        Translation(),
        Classification(),
        Zinc(),
        Overhead(),
    )
}
