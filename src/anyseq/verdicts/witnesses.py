"""The witnesses W1 to W11, each with the argument why no network of the design can do better."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

import numpy as np
import torch

from anyseq.base import generator
from anyseq.verdicts.witness import Witness

_CONSTANTS = (0.0, 0.5, 1.0)


def stuck(tokens: int, i: int, other: int, name: str = "W1") -> Witness:
    """f_i = i, for a design in which identical tokens at two positions get equal outputs.

    A single number y is the output for both i and i': max(|y - i|, |y - i'|) >= |i - i'|/2.
    """
    sequences = torch.tensor(_CONSTANTS, dtype=torch.float64)[:, None].expand(-1, tokens)
    return Witness(
        name=name,
        function="f_i = i (tell every token where it is)",
        why=f"On identical tokens, positions {i:,} and {other:,} get equal outputs.",
        norm="sup",
        bound=abs(other - i) / 2,
        sequences=sequences.clone(),
        values=torch.arange(tokens, dtype=torch.float64).expand(len(_CONSTANTS), -1).clone(),
        weights=_even(len(_CONSTANTS)),
    )


_SYMMETRIES = {
    "permutations": ("W2", "Permuting the tokens permutes the outputs."),
    "reversal": ("W3", "Reversing the sequence reverses the outputs."),
    "rotation": ("W4", "Rotating the sequence rotates the outputs."),
    "other": ("W2", "A permutation of the positions commutes with every network."),
}


def symmetric(image: Sequence[int], kind: str) -> Witness:
    """f_i = i, for networks T that commute with a permutation σ: T(x∘σ)_i = T(x)_σ(i).

    Over the sequences x∘σ^m, m = 0, 1, ..., position i shows every output of x on the orbit of i.
    Each of those outputs must serve as all the numbers of that orbit, so that the mean error is at
    least Σ_i (i - mean of its orbit)², whatever x is; hence for every law of X that σ keeps.
    """
    sigma = np.asarray(image)
    tokens = len(sigma)
    sigma = _of_small_order(sigma)
    name, why = _SYMMETRIES[kind]
    x = torch.rand(tokens, generator=generator(0), dtype=torch.float64).numpy()
    rows, power = [], np.arange(tokens)
    orbit_sums = np.zeros(tokens)
    while True:
        rows.append(x[power])
        orbit_sums += power
        power = sigma[power]
        if np.array_equal(power, np.arange(tokens)):
            break
    means = orbit_sums / len(rows)
    return Witness(
        name=name,
        function="f_i = i (tell every token where it is)",
        why=why,
        norm="lp",
        bound=float(((np.arange(tokens) - means) ** 2).sum()),
        sequences=torch.from_numpy(np.stack(rows)),
        values=torch.arange(tokens, dtype=torch.float64).expand(len(rows), -1).clone(),
        weights=_even(len(rows)),
    )


def exchanged(tokens: int, root: tuple[int, int], image: dict[int, int]) -> Witness:
    """f_i = i, for a rooted isomorphism φ from what reaches i to what reaches i': T(x)_i = T(y)_i'
    as soon as y_φ(u) = x_u.

    One number serves as i for x and as i' for y: (|t - i|² + |t - i'|²)/2 >= (i - i')²/4. For
    independent, equally distributed tokens x and y have one law.
    """
    i, other = root
    x = torch.rand(tokens, generator=generator(0), dtype=torch.float64)
    y = torch.full((tokens,), 0.5, dtype=torch.float64)
    for u, v in image.items():
        y[v] = x[u]
    return Witness(
        name="W2",
        function="f_i = i (tell every token where it is)",
        why=f"What reaches token {i:,} is exactly like what reaches token {other:,}.",
        norm="lp",
        bound=(i - other) ** 2 / 4,
        sequences=torch.stack([x, y]),
        values=torch.arange(tokens, dtype=torch.float64).expand(2, -1).clone(),
        weights=_even(2),
    )


def interchanged(
    tokens: int, place: int, image: dict[int, int], pair: tuple[int, int], norm: str
) -> Witness:
    """f_k = x_v at the one place k that is read, for an isomorphism φ of what reaches k onto itself
    that keeps k and takes u to v: T(x)_k = T(y)_k as soon as y_φ(w) = x_w.

    There x_v serves for x, and y_v = x_u for y. In sup norm one errs by 1/2 if x_u = 1 and x_v = 0.
    In L2² the mean over both is (x_u - x_v)²/4 at least, 1/24 for independent uniform tokens, which
    three Gauss nodes for each give exactly.
    """
    u, v = pair
    if norm == "sup":
        nodes, weights = np.array([[1.0, 0.0]]), np.ones(1)
    else:
        line, weight = np.polynomial.legendre.leggauss(3)
        nodes = np.array([[a, b] for a in (line + 1) / 2 for b in (line + 1) / 2])
        weights = np.outer(weight, weight).ravel() / 4
    x = torch.full((len(nodes), tokens), 0.5, dtype=torch.float64)
    x[:, [u, v]] = torch.from_numpy(nodes)
    y = torch.full_like(x, 0.5)
    for source, goal in image.items():
        y[:, goal] = x[:, source]
    sequences = torch.cat([x, y])
    values = torch.zeros_like(sequences)
    values[:, place] = sequences[:, v]
    return Witness(
        name="W2",
        function=f"f_{place} = x_{v}, 0 elsewhere",
        why=f"Output {place:,} stays the same when tokens change places, {u:,} and {v:,} first.",
        norm=norm,
        bound=0.5 if norm == "sup" else 1 / 24,
        sequences=sequences,
        values=values,
        weights=torch.from_numpy(np.concatenate([weights, weights]) / 2).to(torch.float64),
    )


def unreached(tokens: int, k: int, j: int, norm: str, target: str, name: str = "W6") -> Witness:
    """f_k = x_j, for a design in which token j does not reach token k.

    Output k is one number for all values of x_j. In sup norm it errs by 1/2 at 0 or at 1; in L2²
    for uniform x_j by the variance 1/12 at least. Three Gauss nodes make that sum exact, since the
    error is a polynomial of degree 2 in x_j. For the target "equivariant" the function is the sum
    of all tokens, in every place: the same bounds.
    """
    if norm == "sup":
        nodes, weights = np.array([0.0, 1.0]), np.array([0.5, 0.5])
    else:
        nodes, weights = np.polynomial.legendre.leggauss(3)
        nodes, weights = (nodes + 1) / 2, weights / 2
    sequences = torch.full((len(nodes), tokens), 0.5, dtype=torch.float64)
    sequences[:, j] = torch.from_numpy(nodes)
    if target == "equivariant":
        function = "f_i = Σ_j x_j (the sum, at every token)"
        values = sequences.sum(1, keepdim=True).expand(-1, tokens).clone()
    else:
        function = f"f_{k} = x_{j}, 0 elsewhere"
        values = torch.zeros_like(sequences)
        values[:, k] = sequences[:, j]
    return Witness(
        name=name,
        function=function,
        why=f"Output {k:,} does not depend on token {j:,}.",
        norm=norm,
        bound=0.5 if norm == "sup" else 1 / 12,
        sequences=sequences,
        values=values,
        weights=torch.from_numpy(weights).to(torch.float64),
    )


def affine(tokens: int) -> Witness:
    """f_i = x_i², for networks that are affine in x on identical tokens (W7).

    g affine and e = x² - g: e(0) - 2 e(1/2) + e(1) = 1/2, so that one of the three is 1/8 or more.
    """
    sequences = torch.tensor(_CONSTANTS, dtype=torch.float64)[:, None].expand(-1, tokens).clone()
    return Witness(
        name="W7",
        function="f_i = x_i² on identical tokens",
        why="Without feed-forward layers, attention maps identical tokens affinely.",
        norm="sup",
        bound=0.125,
        sequences=sequences,
        values=sequences**2,
        weights=_even(len(_CONSTANTS)),
    )


def normed(tokens: int, norm: str, final_norm: str) -> Witness:
    """A constant function that the last norm forbids, for a norm without parameters.

    Layer norm: features sum to 0, so that f = 1 is missed by 1 in some feature, and by 1 in the
    mean of squares over features (W10). RMS norm: the mean of squares over features is at most 1,
    so that f = 2 is missed by 1 in the root of that mean, hence in some feature (W11).
    """
    layer = final_norm == "layernorm"
    sequences = torch.full((1, tokens), 0.5, dtype=torch.float64)
    return Witness(
        name="W10" if layer else "W11",
        function=f"f_i = {1 if layer else 2} in every feature",
        why="The final layer norm makes features sum to 0."
        if layer
        else "The final RMS norm keeps the size of a token at 1 or below.",
        norm=norm,
        bound=1.0 if norm == "sup" else float(tokens),
        sequences=sequences,
        values=torch.full_like(sequences, 1.0 if layer else 2.0),
        weights=_even(1),
    )


def _even(count: int) -> torch.Tensor:
    return torch.full((count,), 1 / count, dtype=torch.float64)


def _of_small_order(sigma: np.ndarray) -> np.ndarray:
    """A power of σ, not the identity, whose order is at most twice the number of tokens."""
    lengths = set(_cycle_lengths(sigma))
    order = lcm(*lengths)
    if order <= 2 * len(sigma):
        return sigma
    prime = next(p for p in range(2, order + 1) if order % p == 0)
    power = np.arange(len(sigma))
    exponent, square = order // prime, sigma
    while exponent:
        if exponent & 1:
            power = square[power]
        square, exponent = square[square], exponent >> 1
    return power


def _cycle_lengths(sigma: np.ndarray) -> list[int]:
    seen, lengths = np.zeros(len(sigma), dtype=bool), []
    for start in range(len(sigma)):
        length, here = 0, start
        while not seen[here]:
            seen[here] = True
            here, length = int(sigma[here]), length + 1
        if length:
            lengths.append(length)
    return lengths
