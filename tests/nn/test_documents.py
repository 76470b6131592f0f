"""Several documents in one row are what they are alone."""

import pytest
import torch

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.patterns import Pattern
from nn.inputs import shaken

LENGTHS = ((3, 5, 4), (7, 1, 4))
IDS = torch.randint(9, (2, 12), generator=torch.Generator().manual_seed(0))
DOCUMENTS = torch.stack(
    [torch.arange(3).repeat_interleave(torch.tensor(lengths)) for lengths in LENGTHS]
)


def model(design: aq.Design, causal: bool) -> aq.nn.Transformer:
    net = aq.nn.Transformer(design, 8, 2, 2, vocab=9, causal=causal, dtype=torch.float64)
    return shaken(net)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "pattern",
    [aq.Full(), aq.Window(1), aq.Window(1) | aq.Global((0,)), aq.Blocks(2), aq.Strided(2)],
    ids=str,
)
@pytest.mark.parametrize(
    "position",
    [aq.Absolute(), aq.Sinusoidal(), aq.Rotary(), aq.RelativeBias(), aq.URPE()],
    ids=str,
)
def test_documents_are_apart(pattern: Pattern, position: aq.Position, causal: bool) -> None:
    net = model(aq.Design(12, patterns=pattern, position=position, sinks=True), causal)
    found = net(IDS, document_ids=DOCUMENTS)
    for row, lengths in enumerate(LENGTHS):
        alone = [net(part[None])[0] for part in IDS[row].split(lengths)]
        torch.testing.assert_close(found[row], torch.cat(alone), rtol=0, atol=1e-11)
    packed = net(IDS[:1], cu_seqlens=torch.tensor([0, 3, 8, 12], dtype=torch.int32))
    torch.testing.assert_close(packed, found[:1], rtol=0, atol=1e-12)


def test_gradients_stay_in_their_document() -> None:
    net = aq.nn.Transformer(aq.Design(12), 8, 2, 2, dtype=torch.float64)
    x = torch.randn(2, 12, 8, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(net(x, document_ids=DOCUMENTS)[0, 4].sum(), x)
    touched = slope.abs().sum(-1) > 0
    assert touched[0].tolist() == (DOCUMENTS[0] == 1).tolist()
    assert not touched[1].any()


def test_documents_that_would_mix_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="bos=True"):
        model(aq.Design(12, bos=True), False)(IDS, document_ids=DOCUMENTS)
    mixed = aq.Design(12, layers=[aq.Layer(), aq.Layer(mixer="recurrence")])
    with pytest.raises(InvalidArgument, match=r"blocks\[1\] is GatedRecurrence"):
        model(mixed, True)(IDS, document_ids=DOCUMENTS)
    for pattern in (aq.Star(1), aq.Global((-1,)) | aq.Window(1)):
        with pytest.raises(InvalidArgument, match="rows depend on the number of tokens"):
            model(aq.Design(12, patterns=pattern), False)(IDS, document_ids=DOCUMENTS)
    net = model(aq.Design(12), False)
    with pytest.raises(InvalidArgument, match=r"document_ids of shape \(2, 11\)"):
        net(IDS, document_ids=DOCUMENTS[:, 1:])
    for wrong in ([0, 3, 11], [1, 12], [0, 8, 3, 12]):
        with pytest.raises(InvalidArgument, match="cu_seqlens from"):
            net(IDS, cu_seqlens=torch.tensor(wrong))
