"""How many weights a network needs at least, whatever its design, to serve every f of a class.

With m = ⌈L/2ε⌉ - 1 the cube of D input entries falls into m^D cells, each with a tent of slope L
and height L/2m > ε; so does every output entry, which makes N tents with disjoint supports. Their
sums with signs are functions of the class, and no function is within ε of two of them. So 2^N
networks are needed, and one with W float64 weights is one of 2^(64 W): W >= N/64. If weights depend
continuously on f, the span of the tents shows that W >= N (DeVore, Howard and Micchelli, 1989).
Both are about sup norm. docs/theorems.md, "How many weights?"
"""

from __future__ import annotations

import math

from anyseq.construct.request.ask import Ask
from anyseq.construct.request.error import SUP
from anyseq.construct.request.smooth import Smoothness

_BITS = 64
_WRITTEN_OUT = 10**12


def tents(ask: Ask, kind: str) -> int:
    """N, for functions of a kind: "all", "causal" or "equivariant"; 0 where nothing is known: in
    other norms, and for functions of which more is known than a Lipschitz constant."""
    if ask.norm != SUP or ask.smoothness != Smoothness(ask.lipschitz) or ask.bound <= ask.tol:
        return 0
    if math.isinf(ask.lipschitz) or ask.lipschitz <= 2 * ask.tol:
        return 0
    cells = math.ceil(ask.lipschitz / (2 * ask.tol)) - 1
    n, d, out = ask.design.tokens, ask.features, ask.out_features
    if kind == "causal":  # f_i looks at i + 1 tokens
        return out * sum(int(cells ** (d * seen)) for seen in range(1, n + 1))
    if kind == "equivariant":  # a set of n different cells, and a value for each of its tokens
        return n * out * math.comb(cells**d, n)
    values: int = cells ** (n * d)
    return n * out * values


def fewest_text(ask: Ask, kind: str) -> str | None:
    """The bounds in a sentence, if there are any."""
    count = tents(ask, kind)
    if count < _BITS:
        return None
    return (
        f"lower bound, for any architecture: with fewer than {_number(-(-count // _BITS))} float64 "
        f"weights some such f is missed, and with fewer than {_number(count)} if the weights "
        "depend continuously on f"
    )


def _number(count: int) -> str:
    if count < _WRITTEN_OUT:
        return f"{count:,}"
    power = math.floor(math.log10(count))
    return f"{10 ** (math.log10(count) - power):.1f}·10^{power:,}"
