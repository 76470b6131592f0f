"""Whatever verifies keeps what it claims: random forgeries against every method."""

import numpy as np
import pytest

from anyseq.errors import FileProblem, InvalidArgument
from construct.certified import CASES, RESULTS
from construct.forger import forgery, harm
from construct.forgery import forge

FORGERIES = 24


@pytest.mark.parametrize("name", RESULTS)
def test_what_verifies_is_within_its_bound(name: str, soak: int) -> None:
    f, result = CASES[name]
    found_out = 0
    for seed in range(FORGERIES * soak):
        rng = np.random.default_rng([seed, *name.encode()])
        try:
            false = forgery(result, rng)
            held = forge(
                result,
                claim=false.claim,
                shape=false.shape,
                weights=false.weights,
                look_up=false.look_up,
            )
        except (InvalidArgument, FileProblem):  # no network of ours, or no table
            found_out += 1
            continue
        if not held:
            found_out += 1
            continue
        over = harm(f, result, false, rng)
        assert over <= 0, f"forgery {seed} ({', '.join(false.steps)}) verifies, off by {over:.3g}"
    assert found_out >= FORGERIES * soak / 4
