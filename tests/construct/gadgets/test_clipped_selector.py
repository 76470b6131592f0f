import torch
from hypothesis import given
from hypothesis import strategies as st

from anyseq.construct.gadgets import select_clipped
from anyseq.nn.feedforward import feed_forward

VALUES = st.floats(-1e3, 1e3, width=32)


@given(st.lists(VALUES, min_size=6, max_size=6), st.integers(0, 2), st.sampled_from([0.5, 1, 64]))
def test_the_own_values_come_out_clipped_whatever_the_others(
    values: list[float], token: int, bound: float
) -> None:
    layers = select_clipped(
        tokens=3, out_features=2, width=11, position_at=2, values_at=5, bound=bound
    ).feedforward
    assert layers is not None
    x = torch.zeros(11, dtype=torch.float64)
    x[2 + token] = 1.0
    x[5:] = torch.tensor(values)
    weights = (layers.up_weight, layers.up_bias, layers.down_weight, layers.down_bias)
    y = x + feed_forward(x, *(weight[0] for weight in weights))
    own = torch.tensor(values[2 * token : 2 * token + 2], dtype=torch.float64)
    assert torch.allclose(y[:2], own.clamp(-bound, bound), rtol=0, atol=1e-11)
    assert torch.equal(y[2:], x[2:])
