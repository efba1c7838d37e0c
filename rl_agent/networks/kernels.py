"""Compiled elementwise kernels of the networks, in float32, written to vectorise.

Matrix products use BLAS; everything between two products is one kernel here. ``tanh`` is a rational
approximation (error below 3e-7) because calls into the C library for every number would not vectorise.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from rl_agent.runtime.jit import FUSED, compiled

__all__ = [
    "add_bias",
    "bias_relu",
    "bias_softsign",
    "cell_backward",
    "cell_forward",
    "column_sums",
    "relu_backward",
    "scan_backward",
    "scan_forward",
    "softsign_backward",
]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

ONE, HALF, ZERO = np.float32(1), np.float32(0.5), np.float32(0)

# Coefficients of tanh(x) = x P(x^2) / Q(x^2) on [-7.9, 7.9], highest power last.
BOUND = np.float32(7.90531110763549805)
P0, P1 = np.float32(4.89352455891786e-03), np.float32(6.37261928875436e-04)
P2, P3 = np.float32(1.48572235717979e-05), np.float32(5.12229709037114e-08)
P4, P5, P6 = (
    np.float32(-8.60467152213735e-11),
    np.float32(2.00018790482477e-13),
    np.float32(-2.76076847742355e-16),
)
Q0, Q1 = np.float32(4.89352518554385e-03), np.float32(2.26843463243900e-03)
Q2, Q3 = np.float32(1.18534705686654e-04), np.float32(1.19825839466702e-06)


@njit(inline="always", error_model="numpy", fastmath=FUSED)
def _tanh(x: np.float32) -> np.float32:
    x = min(max(x, -BOUND), BOUND)
    s = x * x
    p = P0 + s * (P1 + s * (P2 + s * (P3 + s * (P4 + s * (P5 + s * P6)))))
    q = Q0 + s * (Q1 + s * (Q2 + s * Q3))
    return x * p / q


@njit(inline="always", error_model="numpy", fastmath=FUSED)
def _sigmoid(x: np.float32) -> np.float32:
    return HALF + HALF * _tanh(HALF * x)


@compiled()
def add_bias(y: F32, bias: F32) -> None:
    """Compute ``y += bias`` in place for y of shape (B, n)."""
    for b in range(y.shape[0]):
        for j in range(y.shape[1]):
            y[b, j] += bias[j]


@compiled(fastmath=FUSED, error_model="numpy")
def bias_softsign(y: F32, bias: F32) -> None:
    """Compute ``y = softsign(y + bias)`` in place, softsign(x) = x / (1 + |x|), for y of shape (B, n)."""
    for b in range(y.shape[0]):
        for j in range(y.shape[1]):
            x = y[b, j] + bias[j]
            y[b, j] = x / (ONE + abs(x))


@compiled(fastmath=FUSED, error_model="numpy")
def softsign_backward(d: F32, y: F32, bias_gradient: F32) -> None:
    """Convert d = dL/dy to dL/dx in place for y = softsign(x), with slope (1 - |y|)^2, and sum it over rows."""
    bias_gradient[:] = ZERO
    for b in range(d.shape[0]):
        for j in range(d.shape[1]):
            slope = ONE - abs(y[b, j])
            x = d[b, j] * slope * slope
            d[b, j] = x
            bias_gradient[j] += x


@compiled()
def bias_relu(y: F32, bias: F32) -> None:
    """Compute ``y = max(y + bias, 0)`` in place for y of shape (B, n)."""
    for b in range(y.shape[0]):
        for j in range(y.shape[1]):
            y[b, j] = max(y[b, j] + bias[j], ZERO)


@compiled()
def relu_backward(d: F32, y: F32, bias_gradient: F32) -> None:
    """Convert d = dL/dy to dL/dx in place for y = max(x, 0), and sum it over rows."""
    bias_gradient[:] = ZERO
    for b in range(d.shape[0]):
        for j in range(d.shape[1]):
            x = d[b, j] if y[b, j] > ZERO else ZERO
            d[b, j] = x
            bias_gradient[j] += x


@compiled(fastmath=FUSED, error_model="numpy")
def column_sums(x: F32, out: F32) -> None:
    """Sum the rows of x, shape (B, n), into ``out``, shape (n,)."""
    out[:] = ZERO
    for b in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[j] += x[b, j]


@compiled(fastmath=FUSED, error_model="numpy")
def cell_forward(gates: F32, c_before: F32, c: F32, tanh_c: F32, h: F32) -> None:
    """Run one LSTM cell for H units and n agents, N = H n numbers in total.

    Each gate is one long contiguous array. With rows of 4 H numbers per agent the same arithmetic takes three times
    longer, because short loops do not fill the vector registers.

    Parameters
    ----------
    gates
        Pre-activations of the gates i, f, o, g, shape (4, N); activated in place.
    c_before
        Cell state before the step, shape (N,).
    c, tanh_c, h
        Written: the new cell state, its tanh and the output, shape (N,).
    """
    i, f, o, g = gates[0], gates[1], gates[2], gates[3]
    n = c.shape[0]
    for k in range(n):
        i[k] = _sigmoid(i[k])
    for k in range(n):
        f[k] = _sigmoid(f[k])
    for k in range(n):
        o[k] = _sigmoid(o[k])
    for k in range(n):
        g[k] = _tanh(g[k])
    for k in range(n):
        c[k] = f[k] * c_before[k] + i[k] * g[k]
    for k in range(n):
        t = _tanh(c[k])
        tanh_c[k] = t
        h[k] = o[k] * t


@compiled(fastmath=FUSED, error_model="numpy")
def cell_backward(gates: F32, c_before: F32, tanh_c: F32, dh: F32, dc: F32) -> None:
    """Reverse ``cell_forward``: ``gates`` become dL/d(pre-activations), ``dc`` becomes dL/d(c_before).

    Parameters
    ----------
    gates
        Activated gates, shape (4, N); overwritten.
    c_before, tanh_c
        As in ``cell_forward``, shape (N,).
    dh, dc
        dL/dh, and the part of dL/dc that comes from later steps, shape (N,); ``dc`` is overwritten.
    """
    gate_i, gate_f, gate_o, gate_g = gates[0], gates[1], gates[2], gates[3]
    for k in range(dh.shape[0]):
        i, f, o, g, t = gate_i[k], gate_f[k], gate_o[k], gate_g[k], tanh_c[k]
        through = dc[k] + dh[k] * o * (ONE - t * t)
        gate_i[k] = through * g * i * (ONE - i)
        gate_f[k] = through * c_before[k] * f * (ONE - f)
        gate_o[k] = dh[k] * t * o * (ONE - o)
        gate_g[k] = through * i * (ONE - g * g)
        dc[k] = through * f


@compiled()
def scan_forward(
    begun: I64, weight: F32, x: F32, gates: F32, c: F32, tanh_c: F32, above: F32
) -> None:
    """Run one LSTM layer over a window, for B windows sorted by descending length.

    Parameters
    ----------
    begun
        Number of windows begun by each step, shape (T,), non-decreasing; the states of the others must be zero, and
        stay so.
    weight
        Maps [input, h, 1] to the gates, shape (4H, S + H + 1).
    x
        Inputs of each step, shape (T + 1, S + H + 1, B): the first S rows are the layer's input and the
        last is 1; the H rows in between are written, the output of step t into ``x[t + 1]``. Those of the first
        step are given.
    gates
        Written, shape (T, 4, H B).
    c, tanh_c
        Written, shapes (T + 1, H, B) and (T, H, B); ``c[t + 1]`` is the state after step t, and ``c[0]`` is given.
    above
        Written: the outputs, in the first H rows; shape (T or more, H or more, B).
    """
    steps, _, batch = x.shape
    size = c.shape[1]
    inputs = x.shape[1] - 1 - size
    first = 0
    while first < steps - 1 and begun[first] == 0:
        first += 1
    if first > 0:
        x[first, inputs:-1] = ZERO
        c[first] = ZERO
    h = np.empty((size, batch), np.float32)
    for t in range(first, steps - 1):
        np.dot(weight, x[t], gates[t].reshape(4 * size, batch))
        cell_forward(
            gates[t], c[t].reshape(-1), c[t + 1].reshape(-1), tanh_c[t].reshape(-1), h.reshape(-1)
        )
        if begun[t] < batch:
            c[t + 1, :, begun[t] :] = ZERO
            h[:, begun[t] :] = ZERO
        x[t + 1, inputs:-1] = h
        above[t, :size] = h


# many arguments: one for each array that a layer keeps of its forward pass
@compiled()
def scan_backward(
    begun: I64,
    weight_t: F32,
    x: F32,
    gates: F32,
    c: F32,
    tanh_c: F32,
    dh: F32,
    dc: F32,
    dc_each: F32,
    gradient: F32,
    below: F32,
) -> None:
    """Back-propagate through ``scan_forward``.

    Parameters
    ----------
    begun, x, gates, c, tanh_c
        As left by ``scan_forward``; ``gates`` is overwritten.
    weight_t
        Transposed weight, shape (S + H + 1, 4H), contiguous.
    dh
        dL/dh of every step from the layer above, shape (T, H, B).
    dc
        dL/dc of the last step from other paths, shape (H, B); overwritten.
    dc_each
        dL/dc of every step from other paths, shape (T, H, B); shape (0, H, B) if there is none.
    gradient
        dL/d(weight) is added to it, shape (4H, S + H + 1).
    below
        Written: dL/d(input) of every step, shape (T, S, B). With shape (T, 0, B) it is not computed.
    """
    size, batch = c.shape[1], c.shape[2]
    inputs = x.shape[1] - 1 - size
    wanted = below.shape[1]
    share = np.empty(gradient.shape, np.float32)
    back = np.zeros((wanted + size, batch), np.float32)
    backwards = weight_t[inputs - wanted : inputs + size]
    d = np.empty((size, batch), np.float32)
    for t in range(gates.shape[0] - 1, -1, -1):
        if begun[t] == 0:
            below[t] = ZERO
            continue
        for j in range(size):
            for b in range(batch):
                d[j, b] = dh[t, j, b] + back[wanted + j, b]
        if dc_each.shape[0] > 0:
            dc += dc_each[t]
        if begun[t] < batch:
            d[:, begun[t] :] = ZERO
            dc[:, begun[t] :] = ZERO
        cell_backward(
            gates[t], c[t].reshape(-1), tanh_c[t].reshape(-1), d.reshape(-1), dc.reshape(-1)
        )
        dz = gates[t].reshape(4 * size, batch)
        np.dot(dz, x[t].T, share)
        gradient += share
        np.dot(backwards, dz, back)
        below[t] = back[:wanted]
