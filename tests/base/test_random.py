import torch

from anyseq.base import generator, uniform


def test_same_seed_same_numbers_and_global_state_untouched() -> None:
    before = torch.random.get_rng_state()
    first, second = (uniform(3, 2, rng=generator(7)) for _ in range(2))
    assert torch.equal(first, second)
    assert first.dtype == torch.float64
    assert torch.equal(before, torch.random.get_rng_state())
