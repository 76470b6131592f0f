"""Parts of a block by choice, each against its formula; and what others do to submodules."""

import copy
from typing import Any

import peft
import pytest
import torch
from torch.nn import functional
from torch.nn.utils import prune

import anyseq as aq
from anyseq.errors import InvalidArgument
from anyseq.nn import Norms
from nn.inputs import random, shaken

LLAMA: dict[str, Any] = {
    "norms": Norms("rmsnorm", 1e-6),
    "activation": "swiglu",
    "feedforward_bias": False,
    "biases": "",
    "kv_heads": 1,
    "head": "untied",
}


def model(design: aq.Design | None = None, **options: Any) -> aq.nn.Transformer:
    design = aq.Design(8, position=aq.Rotary()) if design is None else design
    usual: dict[str, Any] = {"dtype": torch.float64, "heads": 2}
    return shaken(aq.nn.Transformer(design, 8, 2, **usual | options))


def close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("activation", "formula"),
    [
        ("relu", lambda up, gate: up.clamp(min=0)),
        ("gelu", lambda up, gate: up * (1 + torch.erf(up / 2**0.5)) / 2),
        ("gelu_tanh", lambda up, gate: functional.gelu(up, approximate="tanh")),
        ("silu", lambda up, gate: up * up.sigmoid()),
        ("swiglu", lambda up, gate: gate * gate.sigmoid() * up),
        ("geglu", lambda up, gate: gate * (1 + torch.erf(gate / 2**0.5)) / 2 * up),
        ("geglu_tanh", lambda up, gate: functional.gelu(gate, approximate="tanh") * up),
    ],
)
def test_activations(activation: str, formula: Any, bias: bool) -> None:
    layer = aq.nn.FeedForward(4, 6, activation=activation, bias=bias, dtype=torch.float64)
    shaken(layer)
    x, state = random(2, 3, 4), layer.state_dict()
    zero = torch.zeros(1, dtype=torch.float64)

    def project(name: str, to: torch.Tensor) -> Any:
        if f"{name}.weight" not in state:
            return zero
        return to @ state[f"{name}.weight"].T + state.get(f"{name}.bias", zero)

    hidden = formula(project("up_proj", x), project("gate_proj", x))
    close(layer(x), project("down_proj", hidden))
    assert (layer.gate_proj is not None) == activation.endswith(("glu", "glu_tanh"))
    assert ("up_proj.bias" in state) == bias


def test_attention_with_all_its_parts_is_the_formula() -> None:
    layer = aq.nn.Attention(
        6,
        2,
        4,
        biases="qkvo",
        qk_norm="rmsnorm",
        softcap=0.7,
        gate=True,
        scale=0.3,
        position=aq.Rotary(share=0.5),
        dtype=torch.float64,
    )
    shaken(layer)
    x, state = random(2, 5, 6), layer.state_dict()

    def project(name: str, to: torch.Tensor) -> Any:
        out = to @ state[f"{name}_proj.weight"].T
        return out + state[f"{name}_proj.bias"] if f"{name}_proj.bias" in state else out

    heads = {name: project(name, x).view(2, 5, 2, 4).transpose(1, 2) for name in "qkv"}
    for name in "qk":
        mean = heads[name].square().mean(-1, keepdim=True) + torch.finfo(torch.float64).eps
        heads[name] = heads[name] * mean.rsqrt() * state[f"{name}_norm.weight"]
        # of 4 features the first two are a plane, turned by 1 each position
        a, b, rest = heads[name][..., :1], heads[name][..., 1:2], heads[name][..., 2:]
        angle = torch.arange(5.0, dtype=torch.float64)[:, None]
        cos, sin = angle.cos(), angle.sin()
        heads[name] = torch.cat([a * cos - b * sin, a * sin + b * cos, rest], -1)
    scores = 0.7 * torch.tanh(heads["q"] @ heads["k"].mT * 0.3 / 0.7)
    mixed = (scores.softmax(-1) @ heads["v"]).transpose(1, 2).flatten(2)
    close(layer(x), project("o", mixed * project("gate", x).sigmoid()))


@pytest.mark.parametrize("norms", ["layernorm", "rmsnorm", Norms("layernorm", 1e-3, bias=False)])
@pytest.mark.parametrize("norm", ["pre", "post", "sandwich"])
def test_norms_of_blocks(norm: Any, norms: Any) -> None:
    kind = Norms.of(norms)
    block = aq.nn.Block(
        aq.nn.Attention(8, 2, dtype=torch.float64),
        aq.nn.FeedForward(8, 5, dtype=torch.float64),
        norm=norm,
        norms=norms,
    )
    shaken(block)
    state = block.state_dict()

    def normed(name: str, x: torch.Tensor) -> Any:
        if kind.kind == "rmsnorm":
            mean = x.square().mean(-1, keepdim=True) + torch.finfo(x.dtype).eps
            return x * mean.rsqrt() * state[f"{name}.weight"]
        eps = 1e-5 if kind.eps is None else kind.eps
        variance = x.var(-1, correction=0, keepdim=True) + eps
        out = (x - x.mean(-1, keepdim=True)) * variance.rsqrt() * state[f"{name}.weight"]
        return out + state[f"{name}.bias"] if kind.bias else out

    x = y = random(2, 4, 8)
    for name, half in (("mixer", block.mixer), ("feedforward", block.feedforward)):
        assert half is not None
        added = half(x if norm == "post" else normed(f"{name}_norm", x))
        added = normed(f"{name}_out_norm", added) if norm == "sandwich" else added
        x = normed(f"{name}_norm", x + added) if norm == "post" else x + added
    close(block(y), x)


def test_heads_of_ids() -> None:
    ids = torch.tensor([[1, 2, 3]])
    net = model(vocab=7, head="untied")
    state = net.state_dict()
    close(net(ids), net.states(ids) @ state["head.weight"].T)
    net = model(vocab=7, head="none", input_norm=True, first_norm=False, embedding_scale=3.0)
    close(net(ids), net.states(ids))
    assert isinstance(net.blocks[0].mixer_norm, torch.nn.Identity)
    seen: list[torch.Tensor] = []
    assert net.input_norm is not None
    net.input_norm.register_forward_hook(lambda module, given, out: seen.append(given[0]))
    net(ids)
    close(seen[0], 3 * net.state_dict()["embedding"][ids])
    net = model(vocab=7, head="masked-lm", activation="gelu")
    state, x = net.state_dict(), net.states(ids)
    hidden = functional.gelu(x @ state["head.dense.weight"].T + state["head.dense.bias"])
    hidden = functional.layer_norm(hidden, (8,), state["head.norm.weight"], state["head.norm.bias"])
    close(net(ids), hidden @ state["embedding"].T + state["head.bias"])


def test_hooks_fire_on_every_submodule() -> None:
    net = model(vocab=7, gate=True, qk_norm="layernorm", **LLAMA)
    called: set[str] = set()
    for name, module in net.named_modules():
        if not list(module.children()):
            module.register_forward_hook(lambda *_, name=name: called.add(name))
    net(torch.tensor([[1, 2, 3]]))
    # positions are no call of their own; the dropout is none where its share is 0
    leaves = {name for name, module in net.named_modules() if not list(module.children())}
    assert (
        leaves - called
        == {name for name in leaves if name.endswith((".position", ".dropout", "_out_norm"))}
        - called
    )
    assert {"blocks.0.mixer.q_proj", "blocks.1.feedforward.gate_proj", "head"} <= called


def test_lora_adapters_learn() -> None:
    net = model(vocab=7, dtype=torch.float32, **LLAMA)
    names = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    adapted = peft.get_peft_model(net, peft.LoraConfig(r=2, target_modules=names))
    ids = torch.tensor([[1, 2, 3, 4]])
    for _ in range(2):  # B starts at 0, so A has a gradient from the second step on
        adapted.zero_grad()
        adapted(ids).square().sum().backward()
        with torch.no_grad():
            for parameter in adapted.parameters():
                if parameter.grad is not None:
                    parameter.sub_(1e-3 * parameter.grad.sign())
    learned = {name: one for name, one in adapted.named_parameters() if one.requires_grad}
    assert len(learned) == 2 * 2 * len(names)
    for name, parameter in learned.items():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name
    before = adapted(ids)
    merged = adapted.merge_and_unload()
    torch.testing.assert_close(merged(ids), before, rtol=0, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.*(deprecated|torchao).*")
def test_pruned_and_quantized_modules_are_used() -> None:
    net, ids = model(vocab=7, dtype=torch.float32), torch.tensor([[1, 2, 3, 4]])
    before, pruned = net(ids), copy.deepcopy(net)
    for name in ("feedforward.up_proj", "mixer.v_proj"):
        prune.l1_unstructured(pruned.get_submodule(f"blocks.0.{name}"), "weight", 0.5)
    assert not torch.equal(pruned(ids), before)
    quantized = torch.ao.quantization.quantize_dynamic(net.eval(), {torch.nn.Linear})
    found = quantized(ids)
    assert not torch.equal(found, before)
    assert (found - before).abs().max() < 0.1 * before.abs().max()


@pytest.mark.parametrize("options", [{}, LLAMA | {"vocab": 7}], ids=["papers", "llama"])
def test_checkpointed_blocks_have_the_same_gradients(options: dict[str, Any]) -> None:
    found = []
    for checkpointing in (False, True):
        torch.manual_seed(0)
        net = model(dropout=0.5, activation_checkpointing=checkpointing, **options)
        x = torch.tensor([[1, 2, 3]]) if "vocab" in options else random(2, 5, 8)
        torch.manual_seed(1)
        net(x).square().sum().backward()
        found.append([parameter.grad for parameter in net.parameters()])
    for one, other in zip(*found, strict=True):
        close(one, other)


def test_decay_leaves_vectors_and_tables_alone() -> None:
    net = model(aq.Design(8, position=aq.URPE(aq.RelativeBias())), vocab=7)
    assert {
        "gain.table",
        "blocks.0.mixer.position.table",
        "blocks.1.mixer_norm.weight",
    } < net.no_decay
    assert {"blocks.0.mixer.q_proj.bias"} < net.no_decay
    decaying = {name for name, _ in net.named_parameters()} - net.no_decay
    assert decaying == {"embedding"} | {
        f"blocks.{i}.{name}.weight"
        for i in range(2)
        for name in (
            *(f"mixer.{one}_proj" for one in "qkvo"),
            "feedforward.up_proj",
            "feedforward.down_proj",
        )
    }
    absolute = model(aq.Design(8, position=aq.URPE(aq.Absolute(), shared=False)))
    assert {"position.table", "blocks.0.mixer.position.own_gain.table"} < absolute.no_decay


def test_the_old_name_of_a_bias_warns() -> None:
    with pytest.warns(DeprecationWarning, match='it is biases="" now'):
        layer = aq.nn.Attention(4, query_bias=False)
    assert layer.q_proj.bias is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activation": "tanh"}, "activation='tanh': expected one of 'relu'"),
        ({"norms": "batchnorm"}, "norms='batchnorm': expected one of 'layernorm', 'rmsnorm'"),
        ({"biases": "qx"}, "biases='qx': expected letters of \"qkvo\""),
        ({"softcap": 0.0}, "softcap=0"),
        ({"vocab": 7, "head": "loose"}, "head='loose': expected one of 'tied'"),
        ({"qk_norm": "max"}, "norms='max'"),
    ],
)
def test_parts_that_are_not_there_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        model(**options)
