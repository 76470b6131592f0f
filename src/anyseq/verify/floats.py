"""Sums that float64 makes without error, in any order."""

from __future__ import annotations

from math import prod

import numpy as np

from anyseq.verify.verdict import Disagreement

UNIT = 2.0**-53
TINY = 2.0**-960  # of numbers below it not even the rounding is known


def common_unit(numbers: np.ndarray) -> float:
    """The largest power of two of which all numbers are multiples."""
    return float(units(numbers.reshape(-1, 1))[0])


def units(numbers: np.ndarray) -> np.ndarray:
    """The same for every column of (..., columns); 2^400 for one of zeros."""
    flat = numbers.reshape(prod(numbers.shape[:-1]), numbers.shape[-1])
    mantissa, exponent = np.frexp(flat)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(float))[1] - 1 + exponent - 53
    return np.asarray(np.ldexp(1.0, np.where(flat != 0, lowest, 400).min(0, initial=400)))


def exact(x: np.ndarray, weight: np.ndarray, shift: np.ndarray | float = 0.0) -> np.ndarray:
    """x W^T + shift, without rounding: entries of a column of x, or of W, are multiples of a power
    of two, so all that is added up are multiples of the least of their products; below 2^53 of
    these float64 holds every one."""
    unit = min((units(x) * units(weight)).min(initial=2.0**800), common_unit(np.asarray(shift)))
    most = np.abs(x).max(tuple(range(x.ndim - 1)), initial=0.0)
    reach = (np.abs(weight) @ most + np.abs(shift)).max(initial=0.0)
    if not reach < 2.0**53 * unit:
        raise Disagreement("a sum is too large for float64 to be exact")
    return np.asarray(x @ weight.T + shift)


def not_small_whole(weight: np.ndarray) -> np.ndarray:
    """Where it is not a whole number up to 2^20."""
    return np.asarray((weight != np.round(weight)) | (np.abs(weight) > 2.0**20))
