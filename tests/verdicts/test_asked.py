"""What a model is asked, unless told: its own target, length, ids and readout; and BOS."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForSequenceClassification, LlamaModel

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.models import after_bos, as_function
from anyseq.verdicts.models import _answer
from anyseq.verdicts.subject import subject_of
from hf.zoo import build

LLAMA: dict[str, Any] = {"model_type": "llama", "max_position_embeddings": 512}
LLAMA |= {"num_hidden_layers": 2, "rope_theta": 10_000.0}


TARGETS = {"llama": "causal", "gpt2": "causal", "mamba": "causal", "bert": "all", "t5": "causal"}


@pytest.mark.parametrize(("kind", "target"), TARGETS.items())
def test_the_target_is_the_own_one(kind: str, target: str) -> None:
    assert aq.check(build(kind)[0].config).target == target


def test_a_config_is_asked_about_ids_at_its_own_length() -> None:
    verdict = aq.check(LLAMA)
    assert verdict.subject == "Llama (LlamaConfig), 2 layers, 512 tokens"
    assert verdict.design is not None
    assert (verdict.design.domain, verdict.design.tokens) == ("ids", 512)
    assert verdict.open_bos
    assert aq.check(LLAMA, tokens=8).subject.endswith(", 8 tokens")
    assert aq.check(LLAMA, target="all").target == "all"


def test_what_a_probe_sees_has_no_design_and_is_causal() -> None:
    class Sum(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack([x[:, : k + 1].sum(1) for k in range(x.shape[1])], 1)

    assert aq.check(Sum(), tokens=5).target == "causal"


def test_bos_takes_a_position() -> None:
    verdict = aq.check(LLAMA, bos=True)
    assert verdict.design is not None
    assert (verdict.design.tokens, verdict.design.bos) == (511, True)
    assert verdict.subject == "Llama (LlamaConfig), 2 layers, BOS, 511 tokens"
    assert not any(one.saw.startswith("BOS: the model adds none") for one in verdict.findings)
    assert not verdict.open_bos
    assert "positions" not in {one.rule for one in verdict.findings if one.holds is False}
    without = aq.check(LLAMA, bos=False)
    assert without.design is not None
    assert not without.design.bos
    assert not without.open_bos
    assert aq.check(LLAMA, bos=True, tokens=8).subject.endswith(", BOS, 8 tokens")
    table = {"model_type": "gpt2", "n_positions": 16, "n_layer": 1}
    assert aq.check(table, bos=True).subject.endswith(", BOS, 15 tokens")
    with pytest.raises(InvalidArgument, match="has positions for 16 tokens"):
        aq.check(table, bos=True, tokens=16)


def test_a_design_has_its_own_bos() -> None:
    design = aq.Design(4, bos=True)
    assert aq.check(design, bos=True).universal
    with pytest.raises(InvalidArgument, match=r"bos=False, but the design has bos=True"):
        aq.check(design, bos=False)
    with pytest.raises(InvalidArgument, match=r"bos=True, but the design has bos=False"):
        aq.check(aq.Full(), tokens=4, bos=True)
    with pytest.raises(InvalidArgument, match=r"bos=True, but the design has bos=False"):
        aq.check(aq.nn.Transformer(aq.Design(4), dim=8, depth=1), bos=True)
    with pytest.raises(InvalidArgument, match=r"bos='yes': expected True or False"):
        aq.check(LLAMA, bos="yes")  # type: ignore[arg-type]


def test_a_model_behind_a_bos_token_is_run_behind_one() -> None:
    """Without BOS a Llama takes equal tokens for one; behind one it does not, and the witness of
    the design without BOS no longer holds."""
    model = build("llama")[0]
    witness = aq.check(model, tokens=6).witness
    assert witness is not None
    plain = as_function(model, tokens=7)
    assert witness.replay(as_function(model)) >= witness.bound - 1e-3
    function = after_bos(plain)
    assert function.tokens == 6
    out = function(torch.full((1, 6, 1), 0.5, dtype=torch.float64))
    whole = plain(torch.tensor([[-1.0] + [0.5] * 6], dtype=torch.float64)[..., None])
    assert out.equal(whole[:, 1:])
    verdict = aq.check(model, tokens=6, bos=True)
    assert verdict.universal is None
    (seen,) = (one for one in verdict.findings if one.rule == "probe: identical tokens")
    assert seen.saw == "all outputs differ"


class Picture(nn.Module):
    """Attention over the four rows of a picture; what it takes cannot be guessed."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(12, 12)
        self.attend = nn.MultiheadAttention(12, 2, batch_first=True)

    def forward(self, picture: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
        x = self.embed(picture.permute(0, 2, 1, 3).flatten(2))
        out: torch.Tensor = self.attend(x, x, x, need_weights=False)[0]
        return out + flag[:, None, None]


def test_an_example_says_what_a_module_takes() -> None:
    with pytest.raises(InvalidArgument):
        aq.check(Picture())
    verdict = aq.check(Picture(), example=(torch.rand(1, 3, 4, 4), torch.rand(1)))
    assert verdict.design is not None
    assert verdict.design.layer_cycle[0].sees == aq.Full()
    assert verdict.subject == "Picture, 4 tokens"
    assert verdict.universal is None
    assert "seen only, not proved" in verdict.reason
    assert any(one.rule == "probe" and "by example" in one.saw for one in verdict.findings)


def test_ids_as_an_example() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(9, 8)
            self.attend = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            x = self.words(ids)
            out: torch.Tensor = x + self.attend(x, x, x, need_weights=False)[0]
            return out

    for verdict in (aq.check(Words(), example=torch.arange(6)[None]), aq.check(Words(), tokens=6)):
        assert verdict.design is not None
        assert (verdict.design.domain, verdict.design.tokens) == ("ids", 6)


@pytest.mark.parametrize("what", [LLAMA, aq.Design(4), aq.nn.Transformer(aq.Design(4), 8, 1)],
                         ids=["config", "design", "Transformer"])  # fmt: skip
def test_an_example_of_what_needs_none(what: Any) -> None:
    with pytest.raises(InvalidArgument, match="example: given; expected only with a torch module"):
        aq.check(what, example=torch.rand(1, 4, 8))


def test_a_model_with_weights_is_never_a_yes() -> None:
    """Of a config, nothing is said of a width; a model has one."""
    design = aq.Design(6, aq.Causal(), aq.Rotary())
    model = aq.nn.Transformer(design, dim=8, depth=2, heads=2, norm="none")
    stuck = aq.check(model)
    assert stuck.universal is False
    assert stuck.headline == (
        "No: it cannot tell how many equal tokens it has seen. With a BOS token first: yes at some "
        "width (its own is 8), for every causal function."
    )
    bos = aq.Design(6, aq.Causal(), aq.Rotary(), bos=True)
    verdict = aq.check(aq.nn.Transformer(bos, dim=8, depth=2, heads=2, norm="none"))
    assert verdict.universal is None
    assert verdict.headline == (
        "Not known at its own width of 8. Yes at some width, for every causal function."
    )
    assert verdict.certificate is None
    window = aq.Design(6, aq.Causal() & aq.Window(2), bos=True)
    unsure = aq.check(aq.nn.Transformer(window, dim=8, depth=2, heads=2, norm="none"))
    assert unsure.universal is False  # 2 layers of 2
    assert unsure.headline == "No: token 0 reaches token 5 after 3 layers, it has 2."


def test_outputs_that_nobody_reads_are_no_obstacle() -> None:
    """On equal tokens all outputs of a Llama are equal; its classifier reads the last one only."""
    values = LLAMA | {"hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 2}
    values |= {"intermediate_size": 16, "vocab_size": 20, "pad_token_id": 0}
    del values["model_type"]
    config = LlamaConfig(**values)
    verdict = aq.check(LlamaForSequenceClassification(config), tokens=6)
    assert verdict.design is not None
    assert verdict.design.readout == "last"
    assert verdict.universal is None
    assert verdict.witness is None
    assert aq.check(LlamaModel(config), tokens=6).witness is not None


@pytest.mark.parametrize(("bos", "universal", "words"), [
    (None, False, "Yes at some width, for every causal function, if a BOS token comes first; "
     "without one it cannot tell how many equal tokens it has seen."),
    (True, True, "Yes at some width, for every causal function."),
    (False, False, "No: it cannot tell how many equal tokens it has seen. With a BOS token first: "
     "yes at some width, for every causal function."),
])  # fmt: skip
def test_the_first_line_of_a_llama(bos: bool | None, universal: bool, words: str) -> None:
    """Of what is read of it, less its norms."""
    subject = subject_of(LLAMA, None, bos, None)
    assert subject.design is not None
    plain = replace(subject.design, block_norm=None, final_norm=None)
    verdict = _answer(replace(subject, design=plain), 30.0, "sup", "causal")
    assert (verdict.universal, verdict.headline) == (universal, words)


def test_repairs_of_a_causal_model_stay_causal() -> None:
    model = aq.nn.Transformer(aq.Design(9, aq.Causal() & aq.Window(2)), 8, 2, norm="none")
    for target in ("causal", "all", "equivariant"):
        verdict = aq.check(model, target=target)
        assert verdict.universal is False
        assert bool(verdict.fixes) is (target == "causal")
        for fix in verdict.fixes:
            assert not any(pattern.mask(9).triu(1).any() for pattern in fix.design.cycle)
    everything = aq.check(aq.Design(9, aq.Causal() & aq.Window(2), depth=2))
    assert any(fix.keys is None for fix in everything.fixes)  # a design may become another one
