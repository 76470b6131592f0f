"""The papers' experiments, rerun. `experiment.py` has the contract, and how to add one."""

from anyseq.experiments.catalogue import EXPERIMENTS
from anyseq.experiments.data import Data
from anyseq.experiments.engine import is_main_process, own_random_state
from anyseq.experiments.experiment import SCALES, AnyExperiment, Cell, Judgement
from anyseq.experiments.kept import keep, kept_tables
from anyseq.experiments.peer import step_seconds
from anyseq.experiments.report import report_text
from anyseq.experiments.reproduce import reproduce, tables, unwatched, write_results
from anyseq.experiments.table import Row, Summary, Table
from anyseq.experiments.tensorboard import tensorboard
from anyseq.experiments.train import Sight, Watch

__all__ = [
    "EXPERIMENTS",
    "SCALES",
    "AnyExperiment",
    "Cell",
    "Data",
    "Judgement",
    "Row",
    "Sight",
    "Summary",
    "Table",
    "Watch",
    "is_main_process",
    "keep",
    "kept_tables",
    "own_random_state",
    "report_text",
    "reproduce",
    "step_seconds",
    "tables",
    "tensorboard",
    "unwatched",
    "write_results",
]
