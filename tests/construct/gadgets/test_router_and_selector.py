import torch

from anyseq.construct.gadgets import route, select
from construct.networks import run, run_blocks


def test_every_token_holds_the_whole_sequence_to_the_bit() -> None:
    n, d = 3, 2
    width = d + n + n * d
    x = torch.rand(20, n, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    z = torch.zeros(20, n, width, dtype=torch.float64)
    z[..., :d], z[..., d : d + n] = x, torch.eye(n, dtype=torch.float64)
    layers = route(tokens=n, features=d, width=width, position_at=d, slots_at=d + n)
    out = run_blocks([layers], z)
    assert torch.equal(out[..., d + n :], x.flatten(1)[:, None].expand(-1, n, -1))
    assert (out[..., :d] == 0).all()
    assert torch.equal(out[..., d : d + n], z[..., d : d + n])


def test_every_token_keeps_its_own_value() -> None:
    n, o = 3, 2
    width = o + n + n * o
    values = torch.rand(20, n, o, generator=torch.Generator().manual_seed(0)).double() * 8 - 4
    z = torch.zeros(20, n, width, dtype=torch.float64)
    z[..., o : o + n] = torch.eye(n, dtype=torch.float64)
    z[..., o + n :] = values.flatten(1)[:, None]
    layers = select(
        tokens=n, out_features=o, width=width, position_at=o, values_at=o + n, bound=4.0
    )
    torch.testing.assert_close(run(layers, z)[..., :o], values, rtol=0, atol=4 * 2.0**-52)
