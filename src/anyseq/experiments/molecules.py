"""Graphs with a number to predict: ZINC-12k from the user's disk, or generated ones."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch

from anyseq.base import generator, seed_of
from anyseq.experiments.data import Data, Sources, check_count, sha256_of

_ZINC = "zinc12k_graphs.npz", "b261a6ef621efa68f6e24468ba7b3c7dcefc1b0d8aa5b9b96fa15b26fd12860c"
_ZINC_COUNTS = {"train": 10_000, "test": 1_000}
_TYPES, _FEWEST, _MOST = 5, 6, 14  # of generated graphs: types of nodes, and how many nodes


class Graphs(NamedTuple):
    """types: (graphs, nodes) int64; bonds: (graphs, nodes, nodes) uint8, symmetric, 0 for none,
    otherwise 1, 2 or 3; real: (graphs, nodes) bool, False for padding; y: (graphs,) float32."""

    types: torch.Tensor
    bonds: torch.Tensor
    real: torch.Tensor
    y: torch.Tensor


class GraphSplits(NamedTuple):
    """To train on, to be measured on, and what they come from."""

    train: Graphs
    test: Graphs
    sources: Sources


@lru_cache(maxsize=1)
def graphs(data: Data, count: int) -> GraphSplits:
    """ZINC-12k if the data has a folder; otherwise `count` generated graphs to train on, and a
    quarter of that to be measured on, in the unit in which y of the former has variance 1."""
    if data.folder is None:
        train, test = _generated("a", count), _generated("c", count // 4)
        mean, unit = train.y.mean(), train.y.std()
        sources = {"generated graphs": sha256_of(*(x.numpy().tobytes() for x in train + test))}
        train, test = (part._replace(y=(part.y - mean) / unit) for part in (train, test))
        return GraphSplits(train, test, sources)
    with np.load(io.BytesIO(data.read(*_ZINC)), allow_pickle=False) as arrays:
        train, test = (_zinc(arrays, part) for part in _ZINC_COUNTS)
    return GraphSplits(train, test, {f"ZINC-12k, {_ZINC[0]}": _ZINC[1]})


def _zinc(arrays: np.lib.npyio.NpzFile, part: str) -> Graphs:
    atoms, bonds = arrays[f"{part}_natom"].astype(int), arrays[f"{part}_nbond"].astype(int)
    check_count(f"molecules in {part}", len(atoms), _ZINC_COUNTS[part])
    graph = np.repeat(np.arange(len(atoms)), atoms)
    place = np.arange(atoms.sum()) - np.repeat(atoms.cumsum() - atoms, atoms)
    types = np.zeros((len(atoms), atoms.max()), dtype=np.int64)
    types[graph, place] = arrays[f"{part}_atom"]
    joined = np.zeros((len(atoms), atoms.max(), atoms.max()), dtype=np.uint8)
    graph, (i, j) = np.repeat(np.arange(len(bonds)), bonds), arrays[f"{part}_bond"].T
    joined[graph, i, j] = joined[graph, j, i] = arrays[f"{part}_btype"]
    real = np.arange(atoms.max()) < atoms[:, None]
    y = arrays[f"{part}_y"].astype(np.float32)
    return Graphs(*map(torch.from_numpy, (types, joined, real, y)))


def _generated(part: str, count: int) -> Graphs:
    """Random trees with a few more bonds, as molecules are. y is the number of rings plus a number
    for each bond that depends on its order and its ends: y depends on which atoms are connected,
    not only on which are present."""
    rng = generator(seed_of("generated graphs", part))
    sizes = torch.randint(_FEWEST, _MOST + 1, (count,), generator=rng)
    real = torch.arange(_MOST) < sizes[:, None]
    types = torch.randint(_TYPES, (count, _MOST), generator=rng) * real
    bonds = torch.zeros(count, _MOST, _MOST, dtype=torch.uint8)
    each = torch.arange(count)
    for node in range(1, _MOST):  # to one of the last three before it
        before = node - 1 - torch.randint(min(node, 3), (count,), generator=rng)
        bonds[each, node, before] = torch.randint(1, 4, (count,), generator=rng, dtype=torch.uint8)
    i, j = (torch.randint(_MOST, (count,), generator=rng) for _ in range(2))
    bonds[each, torch.maximum(i, j), torch.minimum(i, j)] = 1
    bonds[:, range(_MOST), range(_MOST)] = 0
    bonds *= real[:, :, None] & real[:, None, :]
    rings = (bonds > 0).sum((1, 2)) - sizes + 1
    value = (types[:, :, None] - types[:, None, :]).abs() * bonds
    y = rings + value.sum((1, 2)) / _TYPES
    bonds = bonds + bonds.transpose(1, 2)
    return Graphs(types, bonds, real, y)
