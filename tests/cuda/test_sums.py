"""Sums over the threads of a block."""

from typing import Any

import numpy as np
import pytest
from numba import cuda

VALUES = 11


@pytest.mark.parametrize("few", [False, True])
def test_sums_of_blocks(few: bool, tiny: bool) -> None:
    """Integers, so that the order does not matter; blocks of several warps and of one (in the simulator four)."""
    from flowsim.backend.cuda.device import Device
    from flowsim.backend.cuda.launching import THREADS, Kernel, block_sums

    @Kernel
    def sum_twice(numbers: Any, sums: Any) -> None:
        scratch = cuda.shared.array((VALUES, THREADS), np.float64)
        b, t = cuda.blockIdx.x, cuda.threadIdx.x
        x = numbers[b, t]
        values = (x, 2 * x, 3 * x, 4 * x, 5 * x, 6 * x, 7 * x, 8 * x, 9 * x, 10 * x, 11 * x)
        block_sums(values, scratch)
        for n in range(t, VALUES, cuda.blockDim.x):
            sums[b, n] = scratch[n, 0]
        block_sums((x * x,), scratch)
        if t == 0:
            sums[b, VALUES] = scratch[0, 0]

    threads, device = ((4 if tiny else 32) if few else THREADS), Device()
    numbers = np.random.default_rng(0).integers(-1000, 1000, (3, threads)).astype(float)
    near = device.zeros((3, VALUES + 1), np.float64)
    sum_twice.launch((3,), (threads,), device.array(numbers), near)
    sums = device.to_host(near)
    np.testing.assert_array_equal(sums[:, :VALUES], numbers.sum(1)[:, None] * np.arange(1, 12))
    np.testing.assert_array_equal(sums[:, VALUES], (numbers**2).sum(1))
