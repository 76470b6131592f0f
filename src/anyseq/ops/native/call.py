"""One call of the native kernel: tensors as pointers and strides."""

from __future__ import annotations

import ctypes
from ctypes import c_double, c_int64, c_uint64, c_void_p
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anyseq.ops.native.library import Native
from anyseq.ops.native.table import LayoutStruct, Table

_KINDS = {torch.bfloat16: 1, torch.float16: 2}  # `Kind` of halves.hpp


class _Rows(ctypes.Structure):
    _fields_ = (("data", c_void_p), ("batch", c_int64), ("head", c_int64), ("row", c_int64))


class _Grid(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("batch", c_int64),
        ("head", c_int64),
        ("row", c_int64),
        ("column", c_int64),
    )


class _Call(ctypes.Structure):
    """`Call` of attention.cpp."""

    _fields_ = (
        *((name, c_int64) for name in ("batch", "heads", "groups", "queries", "keys", "size")),
        *((name, c_int64) for name in ("value_size", "layouts", "threads", "kind")),
        *((name, c_double) for name in ("scale", "softcap", "dropout")),
        ("seed", c_uint64),
        ("first_batch_row", c_int64),
        *((name, c_void_p) for name in ("layout", "openmp")),
        *((name, _Rows) for name in ("q", "k", "v", "out")),
        *((name, c_void_p) for name in ("lse", "interval", "key_mask")),
        *((name, _Grid) for name in ("mask", "bias", "gain")),
        ("dout", _Rows),
        ("dlse", c_void_p),
        *((name, _Rows) for name in ("dq", "dk", "dv")),
        *((name, _Grid) for name in ("dbias", "dgain")),
        *((name, c_int64) for name in ("bias_sum", "gain_sum")),
        *((name, c_void_p) for name in ("bias_rows", "bias_columns")),
    )


class Arguments(NamedTuple):
    """q (B, H, N, D), k (B, G, M, D), v (B, G, M, E), out (B, H, N, E), features side by side, of
    one type: float32, float64, bfloat16 or float16. lse (B, H, N), contiguous, and bias and gain in
    that, or in float32 beside halves. On the CPU.

    tables: head h has tables[h % len(tables)].
    mask: bool, four axes of full size or 1.
    key_mask: (B, M) bool; interval: (B, N, 2) int32, the keys [x, y) that a query may attend to;
        contiguous.
    bias, gain: four axes of full size or 1, or a Toeplitz matrix as `reversed_table` gives it.
    places: of the tokens, int64, contiguous; then the bias is a table (H or 1, K), whose entry
    (row, j) is at place p(q_offset + row) - p(j) + K // 2.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    out: Tensor
    lse: Tensor
    tables: list[Table]
    scale: float
    softcap: float = 0.0
    dropout_p: float = 0.0
    seed: int = 0
    mask: Tensor | None = None
    key_mask: Tensor | None = None
    interval: Tensor | None = None
    bias: Tensor | None = None
    gain: Tensor | None = None
    places: Tensor | None = None
    q_offset: int = 0
    first_batch_row: int = 0

    def of(self, rows: slice) -> Arguments:
        """The same for some batch rows."""
        if rows.start == 0 and rows.stop >= len(self.q):
            return self

        def some(given: Tensor | None) -> Any:
            return given if given is None or given.ndim == 2 or len(given) == 1 else given[rows]

        q, k, v, out, lse = (side[rows] for side in (self.q, self.k, self.v, self.out, self.lse))
        return self._replace(
            q=q, k=k, v=v, out=out, lse=lse,
            mask=some(self.mask),
            key_mask=None if self.key_mask is None else self.key_mask[rows],
            interval=some(self.interval),
            bias=some(self.bias),
            gain=some(self.gain),
            first_batch_row=rows.start,
        )  # fmt: skip


class Sums(NamedTuple):
    """dout, dlse: what comes back; dq, dk, dv: to be written. dbias, dgain: of a tensor
    (B, H, N, M), all 0, of a Toeplitz matrix (B, H, N + M - 1), of a table for places (B, H, K),
    or None if not asked for."""

    dout: Tensor
    dlse: Tensor | None
    dq: Tensor
    dk: Tensor
    dv: Tensor
    dbias: Tensor | None
    dgain: Tensor | None


def reversed_table(coefficients: Tensor, queries: int, keys: int, q_offset: int) -> Tensor:
    """(H or 1, N + M - 1): entry (row, j) of the Toeplitz matrix is at place N - 1 - row + j."""
    reach = coefficients.shape[1] // 2
    first = reach - (q_offset + queries - 1)
    return coefficients.flip(1)[:, first : first + queries + keys - 1].contiguous()


def run(native: Native, given: Arguments, sums: Sums | None = None) -> None:
    """Fill out and lse; or, with sums, their gradients."""
    q, k, v = given.q, given.k, given.v
    layouts = (LayoutStruct * len(given.tables))(*(one.struct for one in given.tables))
    call = _Call(
        q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3],
        len(layouts), torch.get_num_threads(), _KINDS.get(q.dtype, 0),
        given.scale, given.softcap, given.dropout_p, given.seed, given.first_batch_row,
        ctypes.addressof(layouts), native.openmp,
        _rows(q), _rows(k), _rows(v), _rows(given.out),
        given.lse.data_ptr(), _address(given.interval), _address(given.key_mask),
        _grid(given.mask, q), _grid(given.bias, q), _grid(given.gain, q),
    )  # fmt: skip
    if sums is not None:
        call.dout, call.dlse = _rows(sums.dout), _address(sums.dlse)
        call.dq, call.dk, call.dv = _rows(sums.dq), _rows(sums.dk), _rows(sums.dv)
        call.dbias, call.bias_sum = _gradient(sums.dbias)
        call.dgain, call.gain_sum = _gradient(sums.dgain)
    if given.places is not None and given.bias is not None:
        size = given.places.element_size()
        call.bias_columns = given.places.data_ptr()
        call.bias_rows = call.bias_columns + given.q_offset * size
        call.bias = _Grid(_middle(given.bias), 0, _step(given.bias), 0, 0)
    computed = "double" if q.dtype == torch.float64 else "float"
    function = getattr(native.library, f"anyseq_attention_{computed}")
    if function(ctypes.addressof(call), sums is not None):
        raise MemoryError("attention: the native kernel ran out of memory")


def _address(given: Tensor | None) -> int | None:
    return None if given is None else given.data_ptr()


def _rows(given: Tensor) -> _Rows:
    batch, head, row, _ = given.stride()
    return _Rows(given.data_ptr(), batch, head, row)


def _grid(given: Tensor | None, q: Tensor) -> _Grid:
    if given is None:
        return _Grid()
    if given.ndim == 2:
        first = given.data_ptr() + (q.shape[2] - 1) * given.element_size()
        return _Grid(first, 0, _step(given), -1, 1)
    steps = (
        step if size > 1 else 0 for step, size in zip(given.stride(), given.shape, strict=True)
    )
    return _Grid(given.data_ptr(), *steps)


def _middle(table: Tensor) -> int:
    """The address of the middle of the first row."""
    return table.data_ptr() + table.shape[1] // 2 * table.element_size()


def _step(table: Tensor) -> int:
    """From head to head; 0 if they share one row."""
    return table.stride(0) if table.shape[0] > 1 else 0


def _gradient(given: Tensor | None) -> tuple[_Grid, int]:
    if given is None:
        return _Grid(), 0
    if given.ndim == 3:
        return _Grid(given.data_ptr(), given.stride(0), given.stride(1), -1, 1), given.shape[2]
    return _Grid(given.data_ptr(), *given.stride()), 0
