"""What tests of the operator share: inputs, calls of every kind, and a comparison whose tolerance
comes from the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

import anyseq as aq
from anyseq.ops.operator.given import Given as Arguments
from anyseq.patterns import Landmarks, Pattern, Residue, Ring, Summary


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def inputs(
    n: int, m: int | None = None, heads: int = 2, kv_heads: int | None = None, batch: int = 2
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q (batch, heads, n, 3), k (batch, kv_heads, m, 3), v (batch, kv_heads, m, 4)."""
    m, kv_heads = n if m is None else m, heads if kv_heads is None else kv_heads
    return (
        random(batch, heads, n, 3, seed=1),
        random(batch, kv_heads, m, 3, seed=2),
        random(batch, kv_heads, m, 4, seed=3),
    )


@dataclass(frozen=True)
class Given:
    """A call: sizes of q, k and v, and all other arguments."""

    n: int
    m: int | None = None
    heads: int = 2
    kv_heads: int | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def sides(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return inputs(self.n, self.m, self.heads, self.kv_heads)


def given(n: int, m: int | None = None, heads: int = 2, **arguments: Any) -> Given:
    kv_heads = arguments.pop("kv_heads", None)
    return Given(n, m, heads, kv_heads, arguments)


def tile_arguments(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **arguments: Any
) -> Arguments:
    """Of the operator `tiles`, in its order."""
    usual: dict[str, Any] = dict.fromkeys(Arguments._fields) | {
        "pattern": "", "is_causal": False, "scale": 0.5, "softcap": 0.0, "dropout_p": 0.0,
        "q_offset": 0, "native": True,
    }  # fmt: skip
    return Arguments(**(usual | {"q": q, "k": k, "v": v} | arguments))


def table(n: int, heads: int = 2, seed: int = 4) -> aq.Toeplitz:
    return aq.Toeplitz(random(heads, 2 * n - 1, seed=seed))


def grid(n: int, heads: int = 2, seed: int = 4) -> aq.GridToeplitz:
    """Of an array with five columns, of which a sequence of n tokens fills the first rows."""
    return aq.GridToeplitz(random(heads, 2 * -(-n // 5) - 1, 9, seed=seed))


def coin(*shape: int, seed: int = 6) -> torch.Tensor:
    return random(*shape, seed=seed) > 0


def documents(n: int) -> torch.Tensor:
    """(2, n): documents of 7 tokens, and of 3."""
    return torch.stack([torch.arange(n) // 7, torch.arange(n) // 3])


def with_minus_infinity(n: int, row: bool) -> torch.Tensor:
    """A bias with some entries, or the whole first row, at -inf; the last key stays otherwise."""
    bias = random(2, 2, n, n, seed=4)
    forbidden = coin(2, 2, n, n)
    forbidden[..., -1] = False
    forbidden[:, :, 0] |= row
    return bias.masked_fill(forbidden, -torch.inf)


def _block_mask(n: int) -> Any:
    return (aq.Window(3) | aq.Global((0,))).block_mask(n)


def _by_row_and_head(
    b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor
) -> torch.Tensor:
    return (i - j).abs() <= 2 * b + h


TABLES = (aq.Toeplitz, aq.GridToeplitz)

PATTERNS: Mapping[str, Callable[[int], Pattern]] = {
    "Full": lambda n: aq.Full(),
    "Causal": lambda n: aq.Causal(),
    "Window": lambda n: aq.Window(3),
    "Dilated": lambda n: aq.Dilated(2, 3),
    "Blocks": lambda n: aq.Blocks(5),
    "Residue": lambda n: Residue(4),
    "Strided": lambda n: aq.Strided(5),
    "Summary": lambda n: Summary(6),
    "Fixed": lambda n: aq.Fixed(6),
    "Ring": lambda n: Ring(2),
    "Star": lambda n: aq.Star(2),
    "Global": lambda n: aq.Global((0, -1)),
    "Longformer": lambda n: aq.Longformer(2, (0,)),
    "Random": lambda n: aq.Random(2, seed=1),
    "LogSparse": lambda n: aq.LogSparse(),
    "BigBird": lambda n: aq.BigBird(4, random=2),
    "Landmarks": lambda n: Landmarks(spans=((0, 1), (7, 9)), both=True),
    "Documents": lambda n: aq.Documents((1, n - 1) if n > 1 else (1,)),
    "nobody": lambda n: ~aq.Full(),
    "the future": lambda n: ~aq.Causal(),
    "an intersection": lambda n: aq.Window(9) & aq.Fixed(4) & ~aq.Dilated(1, 2),
    "a past window and hubs": lambda n: (aq.Window(4) & aq.Causal()) | aq.Global((0,)),
    "PerHead": lambda n: aq.PerHead(*aq.Strided(5).split()),
    "PerHead in an algebra": lambda n: aq.PerHead(aq.Window(1), aq.Fixed(3)) & aq.Causal(),
    "FromMask(tensor)": lambda n: aq.FromMask(coin(n, n)),
    "FromMask(function)": lambda n: aq.FromMask(lambda b, h, i, j: (i * j) % 3 == 0),
}

CALLS: Mapping[str, Callable[[int], Given]] = {
    "dense": lambda n: given(n),
    "is_causal": lambda n: given(n, is_causal=True),
    "softcap": lambda n: given(n, softcap=0.7, bias=table(n), gain=table(n, seed=5)),
    "softcap, sparse": lambda n: given(n, softcap=2.0, pattern=aq.Star(3), scale=3.0),
    "documents": lambda n: given(n, document_ids=documents(n), pattern=aq.Window(5)),
    "documents in pieces": lambda n: given(n, document_ids=documents(n) % 2, is_causal=True),
    "documents, dilated": lambda n: given(
        n, document_ids=documents(n), pattern=aq.Dilated(3, 2), gain=table(n)
    ),
    "documents and a cache": lambda n: given(
        n, n + 4, document_ids=documents(n + 4), q_offset=4, is_causal=True, bias=table(n + 4)
    ),
    "more keys": lambda n: given(n, n + 3, scale=0.3),
    "more queries": lambda n: given(n + 3, n, pattern=aq.Window(2)),
    "a cache": lambda n: given(n, n + 5, is_causal=True, q_offset=5, bias=table(n + 5)),
    "after the keys": lambda n: given(n, n, pattern=aq.Star(3), q_offset=n + 2),
    "a cache in part": lambda n: given(n, n + 2, pattern=aq.Fixed(4), q_offset=4),
    "grouped heads": lambda n: given(
        n, heads=6, kv_heads=2, enable_gqa=True, pattern=aq.Strided(4), is_causal=True
    ),
    "grouped heads apart": lambda n: given(
        n, heads=4, kv_heads=2, enable_gqa=True, pattern=aq.PerHead(aq.Window(1), aq.Full())
    ),
    "key_mask": lambda n: given(n, key_mask=coin(2, n), pattern=aq.Window(3)),
    "key_mask without keys": lambda n: given(
        n, key_mask=coin(2, n) & torch.tensor([[False], [True]])
    ),
    "bias": lambda n: given(n, bias=table(n)),
    "bias, longer, one head": lambda n: given(n, bias=table(n + 7, 1), pattern=aq.Window(4)),
    "bias and gain, one number": lambda n: given(
        n, bias=random(1)[0], gain=random(1, seed=5)[0], pattern=aq.Window(3)
    ),
    "bias of an array": lambda n: given(n, bias=grid(n)),
    "bias of an array, sparse": lambda n: given(n, bias=grid(n, 1), pattern=aq.Star(2)),
    "bias of an array, a cache": lambda n: given(
        n, n + 5, q_offset=5, is_causal=True, bias=grid(n + 5), gain=table(n + 5, seed=5)
    ),
    "bias of an array, gathered": lambda n: given(
        n, bias=grid(n), pattern=aq.PerHead(*aq.Strided(4).split()), softcap=2.0
    ),
    "gain": lambda n: given(n, gain=table(n)),
    "gain, causal": lambda n: given(n, gain=table(n + 2), is_causal=True),
    "bias and gain": lambda n: given(n, n + 2, bias=table(n + 2), gain=table(n + 4, 1, seed=5)),
    "bias and gain, sparse": lambda n: given(
        n, bias=table(n), gain=table(n, seed=5), pattern=aq.Star(2), key_mask=coin(2, n)
    ),
    "bias and gain, strided": lambda n: given(
        n, bias=table(n), gain=table(n, seed=5), pattern=aq.PerHead(*aq.Strided(4).split())
    ),
    "bias and gain, random": lambda n: given(
        n, bias=table(n), gain=random(2, n, n, seed=5), pattern=aq.Random(2)
    ),
    "tensors": lambda n: given(n, bias=random(2, 2, n, n, seed=4), gain=random(2, 2, n, n, seed=5)),
    "tensors, sparse": lambda n: given(
        n, bias=random(2, n, n, seed=4), gain=random(2, 1, n, n, seed=5), pattern=aq.Window(5)
    ),
    "tensors, gathered": lambda n: given(
        n, bias=random(n, n, seed=4), gain=random(2, n, n, seed=5), pattern=aq.Fixed(4)
    ),
    "shared axes": lambda n: given(
        n, bias=random(2, 1, n, 1, seed=4), gain=random(2, 1, n, seed=5), pattern=aq.Star(3)
    ),
    "numbers": lambda n: given(n, bias=random(1, seed=4), gain=random(1, 1, seed=5)),
    "a bias of -inf": lambda n: given(n, bias=with_minus_infinity(n, row=False)),
    "a row of -inf": lambda n: given(n, bias=with_minus_infinity(n, row=True)),
    "a row of -inf, sparse": lambda n: given(
        n, bias=with_minus_infinity(n, row=True), pattern=aq.Window(2)
    ),
    "a row of -inf, some passes": lambda n: given(
        n, bias=with_minus_infinity(n, row=True), pattern=aq.Star(2)
    ),
    "BlockMask": lambda n: given(n, pattern=_block_mask(n)),
    "mask_mod": lambda n: given(n, pattern=_by_row_and_head, bias=table(n)),
    "FromMask(mask_mod)": lambda n: given(
        n, pattern=aq.PerHead(aq.FromMask(_by_row_and_head), aq.Window(3)) & aq.Causal()
    ),
    "mask_mod of keys": lambda n: given(n, pattern=lambda b, h, i, j: j % 3 == 0),
    "mask_mod of rows": lambda n: given(n, pattern=lambda b, h, i, j: i > 0),
    "mask_mod of heads": lambda n: given(n, pattern=lambda b, h, i, j: h == b),
    "mask (N, M)": lambda n: given(n, n + 1, pattern=coin(n, n + 1)),
    "mask (H, N, M)": lambda n: given(n, pattern=coin(2, n, n), gain=table(n)),
    "mask (B, 1, N, M)": lambda n: given(n, pattern=coin(2, 1, n, n), is_causal=True),
    "mask (1, H, N, M)": lambda n: given(n, pattern=coin(1, 2, n, n), key_mask=coin(2, n)),
    "mask (B, H, N, M)": lambda n: given(n, pattern=coin(2, 2, n, n)),
} | {
    f"pattern {name}": (lambda n, make=make: given(n, pattern=make(n)))
    for name, make in PATTERNS.items()
}


@dataclass(frozen=True)
class Result:
    """out, lse (None if not asked for), and the gradients of everything by name."""

    out: torch.Tensor
    lse: torch.Tensor | None
    gradients: Mapping[str, torch.Tensor]


def run(call: Given, backend: str, lse: bool = True, dtype: torch.dtype = torch.float64) -> Result:
    """The call, and the gradients of a fixed random combination of its outputs."""
    leaves = dict(zip("qkv", call.sides(), strict=True))
    arguments = dict(call.arguments)
    for name in ("bias", "gain"):
        term = arguments.get(name)
        if term is not None:
            leaves[name] = term.coefficients if isinstance(term, TABLES) else term
    leaves = {name: leaf.detach().to(dtype).requires_grad_() for name, leaf in leaves.items()}
    for name in set(leaves) - set("qkv"):
        term = arguments[name]
        arguments[name] = type(term)(leaves[name]) if isinstance(term, TABLES) else leaves[name]
    q, k, v = (leaves[name] for name in "qkv")
    arguments["backend"] = backend
    sums: torch.Tensor | None = None
    if lse:
        out, sums = aq.attention(q, k, v, **arguments, return_lse=True)
    else:
        out = aq.attention(q, k, v, **arguments)
    # A row that sees nothing has lse = -inf and no gradient.
    outputs = [out] if sums is None else [out, sums.masked_fill(sums == -torch.inf, 0.0)]
    weights = [random(*x.shape, seed=7 + at).to(x.dtype) for at, x in enumerate(outputs)]
    gradients = torch.autograd.grad(outputs, list(leaves.values()), weights)
    return Result(
        out.detach(),
        None if sums is None else sums.detach(),
        dict(zip(leaves, gradients, strict=True)),
    )


def assert_same(
    got: torch.Tensor, expected: torch.Tensor, terms: int, eps: float, what: str
) -> None:
    """Sums of so many terms of the size of the largest entry, each rounded a few times."""
    assert got.shape == expected.shape, what
    got, expected = got.double(), expected.double()
    assert torch.equal(got == -torch.inf, expected == -torch.inf), f"{what}: -inf elsewhere"
    finite = expected != -torch.inf
    assert bool(got[finite].isfinite().all()), f"{what}: not finite"
    size = max(1.0, float(expected[finite].abs().amax())) if bool(finite.any()) else 1.0
    worst = float((got - expected)[finite].abs().amax()) if bool(finite.any()) else 0.0
    assert worst <= 8 * terms * eps * size, f"{what}: off by {worst:.3g}, size {size:.3g}"


def assert_same_result(got: Result, expected: Result, terms: int, eps: float, what: str) -> None:
    assert_same(got.out, expected.out, terms, eps, f"{what}: out")
    if got.lse is not None and expected.lse is not None:
        assert_same(got.lse, expected.lse, terms, eps, f"{what}: lse")
    for name, gradient in expected.gradients.items():
        assert_same(got.gradients[name], gradient, terms, eps, f"{what}: gradient of {name}")
