"""Sums over all pairs of places, by the fast Fourier transform."""

from __future__ import annotations

import numpy as np

from anyseq.graph.edges import Array


def convolved(a: Array, b: Array) -> Array:
    """Σ_j a_j b_(i-j) for i = 0, ..., len(a) + len(b) - 2: exact to rounding in float64, so that
    whole numbers are found by rounding as long as sums of products stay far below 2^53."""
    from scipy.fft import irfft, next_fast_len, rfft  # slow to load

    size = len(a) + len(b) - 1
    length = next_fast_len(size, real=True)
    sums: Array = irfft(rfft(a, length) * rfft(b, length), length)[:size]
    return sums


def sums_of_places(a: Array, b: Array) -> Array:
    """(len(a) + len(b) - 1,) bool: which places are a place of one set plus one of the other."""
    both: Array = convolved(a.astype(np.float64), b.astype(np.float64)) > 0.5
    return both
