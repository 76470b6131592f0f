from pathlib import Path

import torch

import anyseq as aq


def test_a_transformer_goes_to_a_folder_of_the_hub_and_comes_back(tmp_path: Path) -> None:
    design = aq.Design(8, patterns=aq.Window(2), position=aq.Rotary())
    net = aq.hf.HubTransformer(design, 8, 2, 2, vocab=7, activation="swiglu")
    ids = torch.tensor([[1, 2, 3]])
    for _ in range(2):  # a second time over the first
        net.save_pretrained(tmp_path / "net")
    again = aq.hf.HubTransformer.from_pretrained(tmp_path / "net")
    assert isinstance(again, aq.hf.HubTransformer)
    assert torch.equal(again(ids), net(ids))
    assert torch.equal(aq.nn.Transformer.load(tmp_path / "net")(ids), net(ids))
