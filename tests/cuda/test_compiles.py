"""Every kernel compiles for a GPU that is not here: needs numba-cuda and NVVM (flowsim-rl[cuda13]), but no device.

The simulator runs kernels as Python; what numba makes of their types is seen here alone, without a GPU.
"""

import importlib
import pkgutil
import types
from typing import Any

import numpy as np
import pytest
from numba import config

HOPPER = (9, 0)
"""Compute capability of the H100 and the H200."""


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[Any, ...], int]:
    """Length of the PTX of every kernel and types that were launched: it is compiled instead of that."""
    if config.ENABLE_CUDASIM:
        pytest.skip("the simulator compiles nothing")
    reason = "needs flowsim-rl[cuda13], but no GPU"
    pytest.importorskip("cupy", reason=reason)
    pytest.importorskip("numba_cuda", reason=reason)
    import numba
    from numba import cuda
    from numba.cuda import dispatcher

    from flowsim.backend.cuda import device, launching

    monkeypatch.setattr(
        dispatcher, "get_current_device", lambda: types.SimpleNamespace(compute_capability=HOPPER)
    )
    # arrays of NumPy instead of CuPy's have the same types
    monkeypatch.setattr(device, "SIMULATED", True)
    found: dict[tuple[Any, ...], int] = {}

    def launch(kernel: Any, blocks: Any, threads: Any, *arguments: Any) -> None:
        given = numba.void(*map(numba.typeof, arguments))
        if (kernel.name, given) not in found:
            ptx, _ = cuda.compile(
                kernel.function, given, cc=HOPPER, abi="numba", device=False, **kernel.options
            )
            found[kernel.name, given] = len(ptx)

    monkeypatch.setattr(launching.Kernel, "launch", launch)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_kernel_compiles(compiled: dict[tuple[Any, ...], int], dtype: str) -> None:
    from test_equality import CASES

    from flowsim import Grid, Recorder, Simulation
    from flowsim.backend import cuda
    from flowsim.backend.cuda.launching import Kernel

    more = [
        (CASES[name][0], 2 * CASES[name][1], CASES[name][2])
        for name in ("wake", "swimmers that meet")
    ]
    for sides, bodies, options in [*CASES.values(), *more]:
        sensors = [(len(bodies) - 1, (0.6, 0.1))] if bodies else []
        sim = Simulation(Grid(12, 10, 0.3), sides, bodies, viscosity=0.05, batch=2, dtype=dtype, backend="cuda",
                         sensors=sensors, **options)  # fmt: skip
        Recorder(sim, probes=[(1.0, 1.0)])
        sim._every_sweep()
        sim.max_divergence(), sim.solid(), sim.sample_velocity(np.zeros((2, 1, 2)))
    # rows of few and of many entries, and those too long for one block
    for nx in (512, 4096, 8192, 16384):
        around, nowhere = (True, False), (False, False, False, False)
        systems = cuda.PressureSolver(nx, 4, around, nowhere, np.dtype(dtype), 1, sim._device)
        systems.solve(np.ones(1, bool), np.zeros((1, nx, 4), dtype))
    modules = [importlib.import_module(module.name)
               for module in pkgutil.iter_modules(cuda.__path__, f"{cuda.__name__}.")]  # fmt: skip
    kernels = {it.name for module in modules for it in vars(module).values()
               if isinstance(it, Kernel)}  # fmt: skip
    assert {name for name, _ in compiled} == kernels | {"_solve_systems"}
    assert min(compiled.values()) > 0
