"""Shared settings: examples are reproducible, and a slow one is no failure."""

import pytest
import torch
from hypothesis import settings

settings.register_profile("anyseq", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("anyseq")

# One thread per test worker; more would fight for the same cores.
torch.set_num_threads(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--soak", type=int, default=1, help="fuzzers try so many times as much (`make soak`)"
    )


@pytest.fixture
def soak(request: pytest.FixtureRequest) -> int:
    """How many times as much as usual a fuzzer tries."""
    return int(request.config.getoption("soak"))
