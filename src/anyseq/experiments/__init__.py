"""The papers' experiments, rerun. `experiment.py` has the contract, and how to add one."""

from anyseq.experiments.catalogue import EXPERIMENTS
from anyseq.experiments.experiment import SCALES, AnyExperiment, Judgement
from anyseq.experiments.reproduce import reproduce, tables, unwatched, write_results
from anyseq.experiments.table import Row, Summary, Table
from anyseq.experiments.train import Sight, Watch

__all__ = [
    "EXPERIMENTS",
    "SCALES",
    "AnyExperiment",
    "Judgement",
    "Row",
    "Sight",
    "Summary",
    "Table",
    "Watch",
    "reproduce",
    "tables",
    "unwatched",
    "write_results",
]
