import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask

from anyseq.errors import InvalidArgument
from anyseq.patterns import Causal, PatternLike, resolve


def causal(b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
    return i >= j


@pytest.mark.parametrize(
    "given",
    [
        Causal(),
        causal,
        Causal().mask(5),
        Causal().mask(5)[None, None],
        create_block_mask(causal, None, None, 5, 5, device="cpu"),
    ],
    ids=["pattern", "mask_mod", "tensor", "tensor4d", "BlockMask"],
)
def test_everything_that_says_who_looks_at_whom(given: PatternLike) -> None:
    mask_mod = resolve(given, 5)
    b, h = torch.arange(2)[:, None, None, None], torch.arange(3)[None, :, None, None]
    i, j = torch.arange(5)[:, None], torch.arange(5)[None, :]
    mask = mask_mod(b, h, i, j).expand(2, 3, 5, 5)
    assert torch.equal(mask, Causal().mask(5).expand(2, 3, 5, 5))


@pytest.mark.parametrize("given", [torch.ones(5, 5), torch.ones(5, dtype=torch.bool), 3, "windw"])
def test_what_says_nothing_is_refused(given: PatternLike) -> None:
    with pytest.raises(InvalidArgument, match="pattern"):
        resolve(given, 5)
