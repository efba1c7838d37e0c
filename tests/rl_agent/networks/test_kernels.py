"""Elementwise passes give bit-identical results for a number alone and in a vector register."""

import numpy as np
import pytest

from rl_agent.networks import kernels
from rl_agent.networks.optim import adam

N = 301


def cell_forward(gates, c_before):
    out = [np.empty_like(c_before) for _ in range(3)]
    kernels.cell_forward(gates, c_before, *out)
    return gates, *out


def cell_backward(gates, c_before, tanh_c, dh, dc):
    kernels.cell_backward(gates, c_before, tanh_c, dh, dc)
    return gates, dc


def bias_softsign(y, bias):
    kernels.bias_softsign(y, bias[0])
    return (y,)


def softsign_backward(d, y):
    sums = np.empty(d.shape[1], np.float32)
    kernels.softsign_backward(d, y, sums)
    return d, sums


def adam_step(weights, gradient, first, second):
    moments = adam.Adam(len(weights))
    moments.first[:], moments.second[:] = first, second**2
    moments.step(weights, gradient, 1e-2)
    return weights, moments.first, moments.second


def follow(target, weights):
    adam.follow(target, weights, np.float32(0.013))
    return (target,)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (cell_forward, [(4, N), (N,)]),
        (cell_backward, [(4, N), *[(N,)] * 4]),
        (bias_softsign, [(1, N)] * 2),
        (softsign_backward, [(1, N)] * 2),
        (adam_step, [(N,)] * 4),
        (follow, [(N,)] * 2),
    ],
)
def test_result_does_not_depend_on_position_in_the_array(function, shapes):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(scale=2.0, size=shape).astype(np.float32) for shape in shapes]
    together = function(*(array.copy() for array in arrays))
    for k in range(N):
        alone = function(*(array[..., k : k + 1].copy() for array in arrays))
        for one, all_of_them in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one[..., 0], all_of_them[..., k])
