import pytest
import torch

from anyseq.construct.gadgets import keep_own, set_apart
from anyseq.construct.gadgets.blank import blank_feed_forward
from anyseq.nn import Layers
from construct.networks import run


@pytest.mark.parametrize(("n", "o"), [(1, 1), (1, 2), (2, 1), (3, 2)])
@pytest.mark.parametrize("scale", [1.0, 2.0**-1000, 2.0**300])
def test_values_set_apart_are_kept_by_their_tokens(n: int, o: int, scale: float) -> None:
    """Values in the place of positions if there is room, else after them."""
    values = torch.rand(20, n, o, generator=torch.Generator().manual_seed(0)).double() * 2 - 1
    values_at = o if o == 1 else o + n
    width = o + n + n * o
    z = torch.zeros(20, n, width, dtype=torch.float64)
    z[..., o : o + n] = torch.eye(n, dtype=torch.float64)
    first = blank_feed_forward(1, max(1, n - 1), width)
    set_apart(first, tokens=n, out_features=o, position_at=o, values_at=values_at)
    z = run(Layers(feedforward=first), z)
    z[..., values_at : values_at + n * o] += values.flatten(1)[:, None]
    layers = keep_own(tokens=n, out_features=o, width=width, values_at=values_at, scale=scale)
    found = run(layers, z)
    torch.testing.assert_close(found[..., :o] / scale, values, rtol=0, atol=4 * 2.0**-52)
    assert not z[..., o : o + n].any() or values_at == o, "positions are cleared"
