import torch

from anyseq.construct.gadgets import erase, erase_layers
from construct.networks import is_literal, run


def test_tokens_off_the_range_become_zero() -> None:
    step, digits = 1 / 8, [1, 8]
    low, high = 100.0, 5000.0
    layers = erase(low=low, high=high, slack=2.0**16, step=step, digits=digits)
    assert is_literal(layers)
    assert len(layers) == erase_layers(2)

    def token(identity: float, second: float) -> list[float]:
        return [identity - 8 * second, second]

    good = torch.tensor(
        [token(i, s) for i in (low, 777.125, high) for s in (0.0, 0.5)], dtype=torch.float64
    )
    assert torch.equal(run(layers, good), good)
    bad = torch.tensor(
        [
            token(low - step, 0.5),
            token(high + step, 0.5),
            token(0.0, 0.0),
            token(-(2.0**40), 0.875),
            token(2.0**50, 0.875),
            token(3.0, -4096.0),
            token(2.0**30, -4096.0),
        ],
        dtype=torch.float64,
    )
    assert torch.equal(run(layers, bad), torch.zeros_like(bad))
