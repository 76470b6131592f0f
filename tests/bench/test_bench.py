import time

from anyseq.bench import bench_construct
from anyseq.bench.timing import medians, seconds


def test_timing() -> None:
    assert seconds(lambda: time.sleep(0.01)) >= 0.01
    calls: list[str] = []
    times = medians({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=2)
    assert calls == ["a", "b"] * 3, "alternating, after one warm-up"
    assert times.keys() == {"a", "b"}


def test_bench_construct_measures_what_it_says() -> None:
    """The figures themselves are for quiet machines; sizes and agreement hold anywhere."""
    stages: list[str] = []
    figures = bench_construct(lambda stage, done, total: stages.append(stage))
    assert figures["yun_fused"]["layers"] == 16452
    assert figures["yun_fused"]["largest_difference"] <= 1e-9
    assert figures["yun_fused"]["ratio"] > 1
    assert list(figures["gather_nodes"]["seconds_by_nodes"]) == ["729", "35937", "2146689"]
    assert figures["yun_deep"]["layers"] > 262_000
    assert len(stages) == 4
