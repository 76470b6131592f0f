import torch
from hypothesis import given
from hypothesis import strategies as st

from anyseq.base import ZERO_WEIGHT_GAP
from anyseq.construct.contextual import Contextual
from anyseq.construct.gadgets import global_shift, selective_shifts
from construct.networks import is_literal, run_blocks


def shifted_by_attention(context: Contextual, sequences: torch.Tensor) -> torch.Tensor:
    """The ids that softmax attention really makes, in units of δ."""
    step = 1 / context.steps
    runs = [
        selective_shifts(
            windows=context.windows,
            step=step,
            digits=context.digits,
            shift=context.selective_shift,
            gap=ZERO_WEIGHT_GAP,
        ),
        global_shift(
            step=step,
            digits=context.digits,
            shift=context.global_shift,
            gap=ZERO_WEIGHT_GAP,
            lift=0.0,
        ),
    ]
    assert all(map(is_literal, runs))
    digits = torch.tensor(context.digits)
    z = torch.zeros(*sequences.shape, context.width, dtype=torch.float64)
    z[..., : context.features] = (
        sequences[:, :, None] // digits[: context.features] % context.steps
    ).double() * step
    if context.positions:
        z += torch.arange(context.tokens, dtype=torch.float64)[:, None]
    return run_blocks(runs, z) @ digits.double() / step


@given(
    st.sampled_from([(2, 1, 1), (3, 1, 1), (4, 1, 1), (2, 2, 2), (2, 1, 2), (3, 2, 2)]),
    st.integers(1, 3),
    st.booleans(),
)
def test_softmax_shifts_exactly_as_the_integers_do(
    sizes: tuple[int, int, int], k: int, positions: bool
) -> None:
    n, d, w = sizes
    context = Contextual(n, d, w, k, positions)
    if (4 * context.largest).bit_length() > 53:
        return
    sequences = context.sequences()
    if not positions:  # with three equal tokens weights of 1/3 round; such sequences are erased
        sequences = sequences[(sequences.diff(dim=1) > 0).all(1)]
    sequences = sequences[:: max(1, len(sequences) // 300)]
    if len(sequences):
        expected = context.final_ids(sequences).double()
        assert torch.equal(shifted_by_attention(context, sequences), expected)
