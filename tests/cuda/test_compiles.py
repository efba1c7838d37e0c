"""Every kernel compiles for a GPU: needs numba-cuda and NVVM (flowsim-rl[cuda13]), but no device.

The simulator runs kernels as Python; what numba makes of their types is seen here alone, without a GPU. With ptxas
(of NVIDIA's package nvidia-cuda-nvcc, or of a CUDA toolkit) it is seen, too, what they take of a multiprocessor.
"""

import importlib.util
import math
import re
import shutil
import subprocess
import types
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import config

HOPPER = (9, 0)
"""Compute capability of the H100 and the H200."""
PARAMETERS = 4000
"""Bytes of all arguments of a kernel: before CUDA 12.1 a launch takes 4096, and records bring arrays that it leaves."""
REGISTERS = 2**16
"""Of a multiprocessor, all of which one block may have."""
BUDGETS = {
    "_predict": (48, 630),
    "_correct": (64, 970),
    "_transformable_divergence": (40, 300),
}
"""Registers a thread, and instructions of PTX, in single precision, of the sweeps over all cells.

With the registers 1024 threads fit a multiprocessor, of the prediction 1280, of the divergence 1536.
"""
SPILLS = {
    "_weigh": 80,
    "_weigh_beside": 160,
    "_weigh_bent": 256,
    "_weigh_bent_beside": 384,
    "_solve_systems": 8,
}
"""Bytes that a thread may spill, since registers are limited to run more blocks; other kernels may spill none."""


class Cost(NamedTuple):
    """Resources of a kernel: registers, spilled bytes, PTX instructions, and threads per block."""

    registers: int
    spilled: int
    instructions: int
    threads: int


def assembler() -> str | None:
    """Return the path of ptxas."""
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = [path for folder in folders for path in sorted(Path(folder).glob("*/bin/ptxas"))]
    return str(found[0]) if found else shutil.which("ptxas")


def cost(ptx: str, threads: tuple[int, ...], folder: Path, ptxas: str) -> Cost:
    """Assemble a kernel, and return its resources."""
    source = folder / "kernel.ptx"
    source.write_text(ptx)
    command = [ptxas, "-v", "-arch=sm_90", str(source), "-o", str(folder / "kernel.cubin")]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = max(map(int, re.findall(r"Used (\d+) registers", told)))
    spilled = max(map(int, re.findall(r"(\d+) bytes spill stores", told)), default=0)
    instructions = len(re.findall(r"^\t[^.].*;$", ptx, re.MULTILINE))
    return Cost(registers, spilled, instructions, math.prod(threads))


def parameter_bytes(ptx: str) -> int:
    """Return the bytes of the arguments of a kernel, each on a multiple of its size."""
    _, _, entry = ptx.partition(".entry")
    size = 0
    for bits in map(int, re.findall(r"\.param \.[a-z](\d+)", entry[: entry.index(")")])):
        size = -(-size // (bits // 8)) * (bits // 8) + bits // 8
    return size


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[Any, ...], Any]:
    """PTX and threads of all launched kernels by kernel and types; they are compiled instead of run."""
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
    found: dict[tuple[Any, ...], Any] = {}

    def launch(kernel: Any, blocks: Any, threads: Any, *arguments: Any) -> None:
        given = numba.void(*map(numba.typeof, launching.as_taken(arguments)))
        if (kernel, given) not in found:
            ptx, _ = cuda.compile(
                kernel.function, given, cc=HOPPER, abi="numba", device=False, **kernel.options
            )
            found[kernel, given] = ptx.decode() if isinstance(ptx, bytes) else ptx, threads

    monkeypatch.setattr(launching.Kernel, "launch", launch)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_kernel_compiles_within_its_budget(
    compiled: dict[tuple[Any, ...], Any], dtype: str, tmp_path: Path
) -> None:
    launch_all(dtype)
    from kernels import all_kernels

    names = all_kernels() | {it: it.name for it, _ in compiled if it not in all_kernels()}
    other = {"float32": "_predict_in_double", "float64": "_predict"}[dtype]
    launched = {names[kernel] for kernel, _ in compiled}
    assert launched == {*names.values()} - {other}
    assert "_solve_systems" in launched
    assert all(0 < parameter_bytes(ptx) <= PARAMETERS for ptx, _ in compiled.values())
    if (ptxas := assembler()) is None:
        pytest.skip("needs ptxas (nvidia-cuda-nvcc) and flowsim-rl[cuda13], but no GPU")
    for (kernel, _), (ptx, threads) in compiled.items():
        name, it = names[kernel], cost(ptx, threads, tmp_path, ptxas)
        assert it.registers * it.threads <= REGISTERS, (name, it)
        assert it.spilled <= SPILLS.get(name, 0), (name, it)
        registers, instructions = BUDGETS.get(name, (math.inf, math.inf))
        if dtype == "float32":
            assert it.registers <= registers, (name, it)
            assert it.instructions <= instructions, (name, it)


def launch_all(dtype: str) -> None:
    """Launch every kernel."""
    from test_equality import CASES

    from flowsim import Grid, Recorder, Simulation
    from flowsim.backend import cuda
    from flowsim.stability.damping import SelectiveFrequencyDamping

    more = [
        (CASES[name][0], 2 * CASES[name][1], CASES[name][2])
        for name in ("wake", "swimmers that meet")
    ]
    for sides, bodies, options in [*CASES.values(), *more]:
        sensors = [(len(bodies) - 1, (0.6, 0.1))] if bodies else []
        sim = Simulation(Grid(12, 10, 0.3), sides, bodies, viscosity=0.05, batch=2, dtype=dtype, backend="cuda",
                         sensors=sensors, **options)  # fmt: skip
        Recorder(sim, probes=[(1.0, 1.0)])
        SelectiveFrequencyDamping(sim, damping=1.0, filter_width=2.0)
        sim._every_sweep()
        sim.max_divergence(), sim.solid(), sim.sample_velocity(np.zeros((2, 1, 2)))
    # rows of few and of many entries, and those too long for one block
    for nx in (512, 4096, 8192, 16384):
        around, nowhere = (True, False), (False, False, False, False)
        systems = cuda.PressureSolver(nx, 4, around, nowhere, np.dtype(dtype), 1, sim._device)
        systems.solve(np.ones(1, bool), np.zeros((1, nx, 4), dtype))
