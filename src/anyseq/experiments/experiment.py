"""The contract: an experiment is a task (data), a model (nn), a grid of settings and a table.

To add one, write a file with

    @dataclass(frozen=True)
    class _Cell(Cell):                       # the sizes that your task and model need
        tokens: int
        dim: int

    class MyExperiment(Experiment[_Cell]):
        name, paper, claim = "my-experiment", "C", "What the paper says, in a sentence."
        metric = Metric("accuracy", higher_is_better=True)
        published = {"urpe": 1.0}            # setting -> the paper's value of that metric
        note = "Read off bars."              # if there is something to say about those

        def grid(self, scale): ...           # the cells, one per setting
        def task(self, cell, data): ...      # a Task: batches and what to measure on them
        def model(self, cell): ...           # a torch module; its random numbers are seeded
        def judge(self, table): ...          # same, different or undecided, and why
        def sources(self, cell, data): ...   # if the task reads data: which
        def peer(self, cell): ...            # if torch has the parts: the same model, for the speed

and name it in `catalogue.EXPERIMENTS`. Training, processes, checkpoints, tables and pictures are
the harness's: nothing of them is in an experiment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import torch
from torch import nn

from anyseq.experiments.data import Data, Sources
from anyseq.experiments.table import Table

SCALES = ("tiny", "small", "medium", "paper")
"""Seconds, a few minutes on two cores, up to an hour, the papers' sizes."""

Batch = dict[str, torch.Tensor]
"""Tensors by name. Each has a row per example, so that processes can share a batch by rows."""


class Ratio(NamedTuple):
    """A mean before its division: `total` over so many `items`, tensors without dimensions.

    Processes add the two up before they divide, so a mean over tokens is the same however many
    processes share a batch, and however unevenly.
    """

    total: torch.Tensor
    items: torch.Tensor

    @classmethod
    def of(cls, values: torch.Tensor) -> Ratio:
        """The mean of the values."""
        return cls(values.sum(), values.new_tensor(values.numel()))


class Task(ABC):
    """Batches, all from tensors in memory, and the metrics measured on them."""

    @abstractmethod
    def batch(self, size: int, rng: torch.Generator) -> Batch:
        """A batch to train on; everything random in it comes from `rng`."""

    @abstractmethod
    def held_out(self) -> Sequence[Batch]:
        """The batches that the trained model is measured on; the same at every call."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Ratio:
        """The loss that training minimises."""

    def scores(self, model: nn.Module, batch: Batch) -> Mapping[str, Ratio]:
        """What is measured on held-out batches."""
        return {"loss": self.loss(model, batch)}

    def finish(self, means: Mapping[str, float]) -> Mapping[str, float]:
        """The metrics that are written, from the means of the scores over all held-out batches."""
        return means


@dataclass(frozen=True)
class Cell:
    """One cell of a grid: all that a run depends on, besides its seed and the data.

    Fields are numbers, strings, or tuples of those: they are written to config.json, and a run
    resumes only with equal ones.

    setting: the name of the row in the table.
    steps, batch: how many, and how many examples in each, over all processes.
    rate, warm_up: the peak of the learning rate, and the steps to reach it; it falls to 0 in the
        last fifth of the steps.
    weight_decay: AdamW's.
    start: the setting whose trained weights, of the same seed, this one begins with, where names
        and shapes agree; it must come earlier in the grid. None: random weights.
    points: of its curve, how often the model is measured on held-out batches; the last is the end.
    """

    setting: str
    steps: int
    batch: int
    rate: float
    warm_up: int = 0
    weight_decay: float = 0.0
    start: str | None = None
    points: int = 1


class Metric(NamedTuple):
    """The number an experiment's table is about."""

    name: str
    higher_is_better: bool


class Judgement(NamedTuple):
    """Whether the measurements agree with the paper, and why."""

    word: Literal["same", "different", "undecided"]
    reason: str


TINY = Judgement("undecided", "scale tiny only shows that everything runs")
"""The judgement of a table at that scale, unless the claim is about every size."""

C = TypeVar("C", bound=Cell)


class Experiment(ABC, Generic[C]):
    """See the top of this file."""

    name: ClassVar[str]
    paper: ClassVar[str]
    claim: ClassVar[str]
    metric: ClassVar[Metric]
    published: ClassVar[Mapping[str, float]]
    note: ClassVar[str] = ""

    @abstractmethod
    def grid(self, scale: str) -> Sequence[C]:
        """The cells at one of `SCALES`."""

    @abstractmethod
    def task(self, cell: C, data: Data) -> Task:
        """The task that a cell is trained on."""

    @abstractmethod
    def model(self, cell: C) -> nn.Module:
        """The model to train, on the CPU. While this runs, torch's random state is that of the
        seed."""

    @abstractmethod
    def judge(self, table: Table) -> Judgement:
        """The judgement of the claim by the table. A claim that does not hold is "different"."""

    def sources(self, cell: C, data: Data) -> Sources:
        """Which data the task of a cell reads; {}: none."""
        return {}

    def peer(self, cell: C) -> nn.Module | None:
        """The same model from torch's own parts, for comparing speed; None: there is none."""
        return None

    def measure(self, cell: C, seed: int) -> Mapping[str, float] | None:
        """For an experiment that trains nothing: its metrics; those of the main process count.
        None: train, and measure by the task."""
        return None


AnyExperiment = Experiment[Any]
