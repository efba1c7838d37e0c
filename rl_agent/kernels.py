"""Compiled elementwise passes of the networks, in float32, written so that they vectorise.

Matrix products stay with BLAS; everything between two products is one pass here. ``tanh`` is a rational
approximation (error below 3e-7) because a call into the C library for every number would not vectorise.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = ["add_bias", "bias_softsign", "cell_backward", "cell_forward", "column_sums", "scan_backward", "scan_forward"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

ONE, HALF, ZERO = np.float32(1), np.float32(0.5), np.float32(0)

# Coefficients of tanh(x) = x P(x^2) / Q(x^2) on [-7.9, 7.9], highest power last.
BOUND = np.float32(7.90531110763549805)
P = (4.89352455891786e-03, 6.37261928875436e-04, 1.48572235717979e-05, 5.12229709037114e-08)
P += (-8.60467152213735e-11, 2.00018790482477e-13, -2.76076847742355e-16)
P0, P1, P2, P3, P4, P5, P6 = (np.float32(p) for p in P)
Q0, Q1 = np.float32(4.89352518554385e-03), np.float32(2.26843463243900e-03)
Q2, Q3 = np.float32(1.18534705686654e-04), np.float32(1.19825839466702e-06)


@njit(inline="always", error_model="numpy", fastmath=True)
def _tanh(x: np.float32) -> np.float32:
    x = min(max(x, -BOUND), BOUND)
    s = x * x
    p = P0 + s * (P1 + s * (P2 + s * (P3 + s * (P4 + s * (P5 + s * P6)))))
    q = Q0 + s * (Q1 + s * (Q2 + s * Q3))
    return x * p / q


@njit(inline="always", error_model="numpy", fastmath=True)
def _sigmoid(x: np.float32) -> np.float32:
    return HALF + HALF * _tanh(HALF * x)


@njit(cache=True, nogil=True)
def add_bias(y: F32, bias: F32) -> None:
    """``y += bias`` for y of shape (B, n)."""
    for b in range(y.shape[0]):
        for j in range(y.shape[1]):
            y[b, j] += bias[j]


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def bias_softsign(y: F32, bias: F32) -> None:
    """``y = softsign(y + bias)``, softsign(x) = x / (1 + |x|), for y of shape (B, n)."""
    for b in range(y.shape[0]):
        for j in range(y.shape[1]):
            x = y[b, j] + bias[j]
            y[b, j] = x / (ONE + abs(x))


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def softsign_backward(d: F32, y: F32, bias_gradient: F32) -> None:
    """Turn d = dL/dy into dL/dx for y = softsign(x), (1 - |y|)^2 being its derivative; and sum it over rows."""
    bias_gradient[:] = ZERO
    for b in range(d.shape[0]):
        for j in range(d.shape[1]):
            slope = ONE - abs(y[b, j])
            x = d[b, j] * slope * slope
            d[b, j] = x
            bias_gradient[j] += x


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def column_sums(x: F32, out: F32) -> None:
    """Sums over the rows of x, shape (B, n), into ``out``, shape (n,)."""
    out[:] = ZERO
    for b in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[j] += x[b, j]


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def cell_forward(gates: F32, c_before: F32, c: F32, tanh_c: F32, h: F32) -> None:
    """One LSTM cell for n rows: activates ``gates`` in place and writes the new c, tanh(c) and h.

    Parameters
    ----------
    gates
        Pre-activations of the gates i, f, o, g next to each other, shape (n, 4H); activated on return.
    c_before
        Cell state before the step, shape (n, H).
    c, tanh_c, h
        Written, shape (n, H).
    """
    n, size = c.shape
    for b in range(n):
        row = gates[b]
        for j in range(3 * size):
            row[j] = _sigmoid(row[j])
        for j in range(3 * size, 4 * size):
            row[j] = _tanh(row[j])
        for j in range(size):
            c[b, j] = row[size + j] * c_before[b, j] + row[j] * row[3 * size + j]
        for j in range(size):
            tanh_c[b, j] = _tanh(c[b, j])
        for j in range(size):
            h[b, j] = row[2 * size + j] * tanh_c[b, j]


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def cell_backward(gates: F32, c_before: F32, tanh_c: F32, dh: F32, dc: F32) -> None:
    """Reverse of ``cell_forward``: ``gates`` become dL/d(pre-activations), ``dc`` dL/d(c_before).

    Parameters
    ----------
    gates
        Activated gates, shape (n, 4H); overwritten.
    c_before, tanh_c
        As in ``cell_forward``, shape (n, H).
    dh, dc
        dL/dh and the part of dL/dc that comes from later steps, shape (n, H); ``dc`` is overwritten.
    """
    n, size = dh.shape
    for b in range(n):
        row = gates[b]
        for j in range(size):
            i, f, o, g = row[j], row[size + j], row[2 * size + j], row[3 * size + j]
            t = tanh_c[b, j]
            through = dc[b, j] + dh[b, j] * o * (ONE - t * t)
            row[j] = through * g * i * (ONE - i)
            row[size + j] = through * c_before[b, j] * f * (ONE - f)
            row[2 * size + j] = dh[b, j] * t * o * (ONE - o)
            row[3 * size + j] = through * i * (ONE - g * g)
            dc[b, j] = through * f


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def scan_forward(active: I64, recurrent: F32, gates: F32, c: F32, tanh_c: F32, h: F32, work: F32) -> None:
    """Run one LSTM layer over a window.

    Parameters
    ----------
    active
        Rows that have begun by each step, shape (T,), not decreasing; the others are zeroed.
    recurrent
        Weights from h to the gates, shape (H, 4H).
    gates
        Contribution of the input and bias, shape (T, B, 4H); activated gates on return.
    c, tanh_c, h
        Shape (T + 1, B, H): row 0 is the zero state before the window, row t + 1 the state after step t.
    work
        Scratch, shape (B, 4H).
    """
    before = 0
    for t in range(gates.shape[0]):
        n = active[t]
        if before > 0:
            np.dot(h[t, :before], recurrent, work[:before])
            z = gates[t]
            for b in range(before):
                for j in range(z.shape[1]):
                    z[b, j] += work[b, j]
        cell_forward(gates[t, :n], c[t, :n], c[t + 1, :n], tanh_c[t + 1, :n], h[t + 1, :n])
        gates[t, n:] = ZERO
        c[t + 1, n:] = ZERO
        h[t + 1, n:] = ZERO
        before = n


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def scan_backward(active: I64, recurrent_t: F32, gates: F32, c: F32, tanh_c: F32, dh: F32, dc: F32, work: F32) -> None:
    """Back-propagate through ``scan_forward``.

    Parameters
    ----------
    active
        As in ``scan_forward``.
    recurrent_t
        Transposed recurrent weights, shape (4H, H), contiguous.
    gates
        Activated gates, shape (T, B, 4H); dL/d(pre-activations) on return.
    c, tanh_c
        As left by ``scan_forward``.
    dh
        dL/dh of every step from above, shape (T, B, H); the recurrent part is added in place.
    dc
        Zeros, shape (B, H); scratch.
    work
        Scratch, shape (B, H).
    """
    for t in range(gates.shape[0] - 1, -1, -1):
        n = active[t]
        cell_backward(gates[t, :n], c[t, :n], tanh_c[t + 1, :n], dh[t, :n], dc[:n])
        if t > 0 and active[t - 1] > 0:
            before = active[t - 1]
            np.dot(gates[t, :before], recurrent_t, work[:before])
            d = dh[t - 1]
            for b in range(before):
                for j in range(d.shape[1]):
                    d[b, j] += work[b, j]
