import torch

from anyseq.construct.gadgets import value_map, written
from construct.networks import is_literal, run


def test_each_id_becomes_its_target_and_nothing_else_moves() -> None:
    rng = torch.Generator().manual_seed(0)
    digits = [1, 8]
    step = 1 / 8
    ids = torch.randperm(4000, generator=rng)[:200].double() * step + 2.0**30
    current = torch.zeros(200, 2, dtype=torch.float64)
    current[:, 1] = torch.arange(200) % 8 * step
    current[:, 0] = ids - 8 * current[:, 1]
    targets = torch.rand(200, 2, generator=rng, dtype=torch.float64) * 2 - 1
    layers = value_map(
        ids=ids, current=current, targets=targets, half_width=step / 2, digits=digits
    )
    assert is_literal(layers)
    out = run(layers, current)
    assert torch.equal(out, written(current, targets))
    torch.testing.assert_close(out, targets, rtol=0, atol=2.0**-22)
    between = current.clone()
    between[:, 0] += step / 2  # on no id's window
    miss = ~torch.isin(ids + step, ids)
    torch.testing.assert_close(run(layers, between)[miss], between[miss], rtol=1e-9, atol=1e-9)


def test_ascending_order_would_lose_values() -> None:
    """Why the layers descend: met in the wrong order, windows below round the id away."""
    ids = torch.arange(1, 2001, dtype=torch.float64) * 513
    current, targets = ids[:, None].clone(), torch.full((2000, 1), 0.3, dtype=torch.float64)
    layers = value_map(ids=ids, current=current, targets=targets, half_width=0.5, digits=[1])
    assert (run(layers, current) - targets).abs().max() < 1e-9
    f = layers.feedforward
    assert f is not None
    flipped = type(layers)(feedforward=type(f)(*(t.flip(0) for t in vars(f).values())))
    assert (run(flipped, current) - targets).abs().max() > 1e-9
