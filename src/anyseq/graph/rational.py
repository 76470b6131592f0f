"""Polynomials with small whole coefficients, up to a common factor."""

from __future__ import annotations

from math import gcd

import numpy as np

from anyseq.graph.edges import Array

PRIME = 2**31 - 1  # products of two residues fit 64 bits


def exact_key(column: Array, degree: Array, count: Array, most: int) -> bytes:
    """Polynomials L_k(q) = Σ count q^degree, one for each column k, as bytes that are equal iff the
    columns are the same and the polynomials are, up to a common factor.

    Two families are the same up to a factor iff L_k L'_m = L'_k L_m for all k, m. Counts of a
    family add up to n or less, so coefficients of such a product are at least 0 and at most n², a
    difference of two has coefficients of size at most n², and a polynomial of that kind that is not
    0 has no root at B >= 2n² + 2: its leading term is at least B^e in size, the others together at
    most n² (B^e - 1)/(B - 1) < B^e. So the whole numbers L_k(B), divided by their greatest common
    divisor, decide it. With B = 2^32 or 2^64 the coefficients are the digits of L_k(B).

    most: n, without a sink.
    """
    digit = np.dtype("<u4" if 2 * (most + 1) ** 2 + 2 <= 2**32 else "<u8")
    nearest = int(degree.min(initial=degree.max(initial=0)))  # q^nearest is a common factor
    values = {}
    for k in np.unique(column).tolist():
        mine = column == k
        digits = np.zeros(int(degree[mine].max()) - nearest + 1, dtype=digit)
        np.add.at(digits, degree[mine] - nearest, count[mine].astype(digit))
        values[k] = int.from_bytes(digits.tobytes(), "little")
    common = gcd(*values.values())
    return ",".join(f"{k}:{value // common:x}" for k, value in values.items()).encode()


def powers(point: int, most: int) -> Array:
    """point^0, ..., point^most modulo the prime."""
    table = [1]
    for _ in range(most):
        table.append(table[-1] * point % PRIME)
    return np.array(table, dtype=np.int64)
