"""Graphs: their distances and paths, what a batch is, the model and its peer, the judgement."""

import os
from collections import deque
from pathlib import Path

import pytest
import torch

from anyseq.base import generator
from anyseq.experiments import Table, reproduce
from anyseq.experiments.data import Data
from anyseq.experiments.graph_regression import GraphTask, prepared
from anyseq.experiments.molecules import Graphs
from anyseq.experiments.zinc import Zinc
from experiments.torch_layers import fill_encoder_layer, shaken

ROOT = Path(os.environ["ANYSEQ_DATA"]) if "ANYSEQ_DATA" in os.environ else None
CELLS = {cell.setting: cell for cell in Zinc().grid("tiny")}
TRAIN, TEST = prepared(Data(), 200, 5)


def distances_from(bonds: list[list[int]], first: int) -> dict[int, int]:
    """By walking."""
    found, waiting = {first: 0}, deque([first])
    while waiting:
        node = waiting.popleft()
        for other, bond in enumerate(bonds[node]):
            if bond and other not in found:
                found[other] = found[node] + 1
                waiting.append(other)
    return found


def test_paths_are_shortest_walks() -> None:
    for graph in range(20):
        bonds, path = TRAIN.graphs.bonds[graph].tolist(), TRAIN.path[graph].tolist()
        for i in range(len(bonds)):
            distance = distances_from(bonds, i)
            for j in range(len(bonds)):
                assert int(TRAIN.distance[graph, i, j]) == distance.get(j, 21)
                length = min(distance.get(j, 0), 5)
                assert [kind > 0 for kind in path[i][j]] == [hop < length for hop in range(5)]
                # some walk from j, ever nearer to i, has these edges
                at = {j}
                for kind in path[i][j][:length]:
                    at = {
                        other
                        for node in at
                        for other in range(len(bonds))
                        if bonds[node][other] == kind and distance[other] == distance[node] - 1
                    }
                assert at


def test_a_batch_is_graphs_of_similar_size() -> None:
    task = GraphTask(TRAIN, TEST, real_data=False)
    sizes: set[int] = set()
    for seed in range(40):
        batch = task.batch(8, generator(seed))
        n = batch["types"].shape[1]
        assert n == int(batch["real"].sum(1).max())
        assert batch["distance"].shape == (8, n, n)
        assert batch["path"].shape == (8, n, n, 5)
        assert not batch["path"][~batch["real"]].any()
        sizes.update(batch["real"].sum(1).tolist())
    assert sizes == set(range(6, 15))
    held_out = task.held_out()
    assert torch.equal(
        torch.cat([batch["y"] for batch in held_out]).sort().values, TEST.graphs.y.sort().values
    )


def test_every_graph_is_as_likely() -> None:
    few = Graphs(*(part[:8] for part in TRAIN.graphs))._replace(y=torch.arange(8))
    task = GraphTask(TRAIN._replace(graphs=few), TEST, real_data=False)
    drawn = torch.cat([task.batch(4, generator(seed))["y"] for seed in range(2000)])
    share = drawn.bincount() / len(drawn)
    assert share.tolist() == pytest.approx([1 / 8] * 8, abs=0.015)


def test_urpe_starts_at_rpe() -> None:
    rpe, urpe = (Zinc().model(CELLS[name]) for name in ("rpe", "urpe"))
    taken = urpe.load_state_dict(rpe.state_dict(), strict=False)
    assert taken.missing_keys == ["encoder.gain"]
    batch = TRAIN.batch(torch.arange(4))
    torch.testing.assert_close(urpe(batch), rpe(batch))


def test_the_parameters_that_the_note_tells() -> None:
    counts = [
        sum(weight.numel() for weight in Zinc().model(cell).parameters())
        for cell in Zinc().grid("paper")
    ]
    assert counts == [475_945, 476_129]
    assert all(f"{count:,}" in Zinc.note for count in counts)


def test_the_edge_term_by_hand() -> None:
    """Its number for each hop and kind of edge, averaged over the path: in the bias of a layer that
    is given it, as in the model."""
    model = Zinc().model(CELLS["urpe"]).double()
    shaken(model)
    batch = TRAIN.batch(torch.arange(3))
    n = batch["types"].shape[1]
    bias = torch.zeros(3, 2, n, n, dtype=torch.float64)
    for graph, i, j in torch.cartesian_prod(*map(torch.arange, (3, n, n))).tolist():
        kinds = [kind for kind in batch["path"][graph, i, j].tolist() if kind]
        for hop, kind in enumerate(kinds):
            bias[graph, :, i, j] += model.edge[3 * hop + kind - 1].detach() / len(kinds)
    out = model.encoder(batch["types"], batch["distance"], batch["real"], pair_bias=bias)
    wanted = model.head(model.norm(out.graph))[:, 0]
    torch.testing.assert_close(model(batch), wanted)
    other = model.encoder(batch["types"], batch["distance"], batch["real"])
    assert not torch.allclose(other.graph, out.graph), "edges matter"


def test_padding_changes_nothing() -> None:
    model = Zinc().model(CELLS["urpe"]).double()
    shaken(model)
    together = model(TRAIN.batch(torch.arange(6)))
    alone = torch.cat([model(TRAIN.batch(torch.tensor([row]))) for row in range(6)])
    torch.testing.assert_close(together, alone)


@pytest.mark.parametrize("position", ["rpe", "urpe"])
def test_the_peer_is_the_same_model(position: str) -> None:
    model = Zinc().model(CELLS[position]).double()
    shaken(model)
    peer = Zinc().peer(CELLS[position]).double()
    kept = {name: value for name, value in model.state_dict().items() if "blocks" not in name}
    missing = peer.load_state_dict(kept, strict=False).missing_keys
    assert all("blocks" in name for name in missing)
    for layer in range(CELLS[position].depth):
        fill_encoder_layer(
            peer.get_submodule(f"encoder.blocks.{layer}"),
            model.get_submodule(f"encoder.blocks.{layer}"),
        )
    batch = TRAIN.batch(torch.arange(5))
    torch.testing.assert_close(peer(batch), model(batch))


def table(real: float, rpe: float, urpe: float) -> Table:
    rows = [
        {"setting": setting, "seed": seed, "metric": metric, "value": value}
        for setting, mae in (("rpe", rpe), ("urpe", urpe))
        for seed in range(3)
        for metric, value in (("mae", mae + 1e-3 * seed), ("real_data", real))
    ]
    return Table("zinc", "medium", rows)


def test_judgements() -> None:
    assert Zinc().judge(table(1.0, 0.3, 0.25)).word == "same"
    assert Zinc().judge(table(1.0, 0.25, 0.3)).word == "different"
    assert Zinc().judge(table(1.0, 0.25, 0.25)).word == "undecided"
    generated = Zinc().judge(table(0.0, 0.3, 0.25))
    assert generated.word == "undecided"
    assert "without the data" in generated.reason


def test_from_end_to_end(tmp_path: Path) -> None:
    found = reproduce("zinc", scale="tiny", seeds=1, out=tmp_path)
    assert found.settings == ["rpe", "urpe"]
    assert all(0.1 < mae < 1.0 for mae in found.means("mae").values())
    assert set(found.means("real_data").values()) == {0.0}


@pytest.mark.skipif(ROOT is None, reason="ANYSEQ_DATA names no folder with the real data")
def test_the_real_molecules_fit_the_model() -> None:
    train, _ = prepared(Data(ROOT), 0, 5)
    cell = CELLS["urpe"]
    assert int(train.graphs.types.max()) < cell.kinds
    both = train.graphs.real[:, :, None] & train.graphs.real[:, None, :]
    assert int(train.distance[both].max()) <= 20
    assert torch.isfinite(Zinc().model(cell)(train.batch(torch.arange(50)))).all()
