"""Sums over the threads of a block."""

from typing import Any

import numpy as np
import pytest
from numba import cuda

from flowsim.backend.cuda.launching import SIMULATED, THREADS, Kernel, block_sums

VALUES = 11


@Kernel
def _sum_twice(numbers: Any, sums: Any) -> None:
    """Sum eleven values of all threads, then one value, in the same room."""
    scratch = cuda.shared.array((VALUES, THREADS), np.float64)
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    x = numbers[b, t]
    block_sums((x, 2 * x, 3 * x, 4 * x, 5 * x, 6 * x, 7 * x, 8 * x, 9 * x, 10 * x, 11 * x), scratch)
    for n in range(t, VALUES, cuda.blockDim.x):
        sums[b, n] = scratch[n, 0]
    block_sums((x * x,), scratch)
    if t == 0:
        sums[b, VALUES] = scratch[0, 0]


@pytest.mark.parametrize("threads", [THREADS, THREADS // 2 if SIMULATED else 32])
def test_sums_of_blocks(threads: int) -> None:
    """Of integers, so that the order does not matter, by blocks of one warp and of several."""
    numbers = np.random.default_rng(0).integers(-1000, 1000, (3, threads)).astype(float)
    sums = np.zeros((3, VALUES + 1))
    if SIMULATED:
        _sum_twice.launch((3,), (threads,), numbers, sums)
    else:
        import cupy

        on_device = cupy.zeros(sums.shape)
        _sum_twice.launch((3,), (threads,), cupy.asarray(numbers), on_device)
        sums = cupy.asnumpy(on_device)
    np.testing.assert_array_equal(sums[:, :VALUES], numbers.sum(1)[:, None] * np.arange(1, 12))
    np.testing.assert_array_equal(sums[:, VALUES], (numbers**2).sum(1))
