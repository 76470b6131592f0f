"""Weights w_0, ..., w_(M-1) in integers that tell multisets of h cells apart by their sum alone.

Two families; the one with the smaller weights is taken.

- Radix: 0, 1, h+1, (h+1)², ..., (h+1)^(M-2). The digits of a sum in base h+1 are the numbers of
  times each cell but cell 0 occurs.
- Bose and Chowla (1962): q >= M a prime, θ a generator of the field with q^h elements,
  w_c = log_θ(θ + c). If Σ w(c_i) = Σ w(c'_i) then Π(θ + c_i) = Π(θ + c'_i). Both products are
  monic polynomials of degree h in θ, so their difference has degree below h; θ, which generates the
  field, is no root of such a polynomial unless it is 0. So the polynomials are equal, and their
  roots are. All weights lie in [1, q^h - 2].
"""

from __future__ import annotations

from itertools import count, product

from anyseq.errors import ConstructionFault


def largest_weight(cells: int, size: int) -> int:
    """No weight of `separating_weights` is larger."""
    return min(_radix_largest(cells, size), _field_largest(cells, size))


def separating_weights(cells: int, size: int) -> list[int]:
    """The weights of M cells for multisets of h = size."""
    if _radix_largest(cells, size) <= _field_largest(cells, size):
        return [0, *((size + 1) ** cell for cell in range(cells - 1))]
    if size <= 1:
        return list(range(cells))
    return _logarithms(_prime_at_least(cells), size)[:cells]


def _radix_largest(cells: int, size: int) -> int:
    return int((size + 1) ** (cells - 2)) if cells > 1 else 0


def _field_largest(cells: int, size: int) -> int:
    return cells - 1 if size <= 1 else int(_prime_at_least(cells) ** size) - 2


def _prime_at_least(least: int) -> int:
    return next(
        number
        for number in count(max(2, least))
        if all(number % divisor for divisor in range(2, int(number**0.5) + 1))
    )


def _logarithms(prime: int, degree: int) -> list[int]:
    """log_θ(θ + c) for c = 0, ..., q-1, in the field of q^h elements, h >= 2.

    Coefficients a of θ^h = Σ_i a_i θ^i are tried until the powers of θ come back to 1 only after
    all q^h - 1 elements but 0: then it is a field, and θ generates it. The norm of a generator,
    (-1)^(h-1) a_0, generates the field of q elements, which leaves few a_0 to try.
    """
    norms = (a for a in range(1, prime) if _generates((-1) ** (degree - 1) * a, prime))
    one = (1, *(0,) * (degree - 1))
    for relation in product(norms, *(range(prime),) * (degree - 1)):
        logarithms = [0] * prime
        power, exponent = one, 0
        while exponent == 0 or power != one:
            if power[1] == 1 and not any(power[2:]):
                logarithms[power[0]] = exponent
            top = power[-1]
            shifted = (0, *power[:-1])
            power = tuple((low + top * a) % prime for low, a in zip(shifted, relation, strict=True))
            exponent += 1
        if exponent == prime**degree - 1:
            return logarithms
    raise ConstructionFault(f"no generator found for the field of {prime}^{degree} elements")


def _generates(number: int, prime: int) -> bool:
    """Whether the powers of a number are all of 1, ..., q-1."""
    return len({pow(number, exponent, prime) for exponent in range(prime - 1)}) == prime - 1
