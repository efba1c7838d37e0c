"""The CUDA backend, on a GPU or in numba's simulator.

    NUMBA_ENABLE_CUDASIM=1 python -m pytest tests/cuda    # kernels on the CPU, thread by thread, on tiny grids
    python -m pytest tests/cuda                           # on a GPU

The simulator runs every kernel and everything around them but what belongs to the device alone: cuFFT (NumPy's
transforms take its place), streams, graphs, pinned memory and its transfers.
"""

import pytest
from numba import config

from flowsim.backend import step

SIMULATED = bool(config.ENABLE_CUDASIM)
if SIMULATED:
    from simulator import wait_in_place_of_polling

    wait_in_place_of_polling()


def why_not() -> str:
    if SIMULATED:
        return ""
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        return f"no GPU ({error}); NUMBA_ENABLE_CUDASIM=1 runs these tests in numba's simulator"
    return ""


def pytest_collection_modifyitems(items):
    reason = why_not()
    for item in items:
        if "tests/cuda" in str(item.path.as_posix()):
            if reason and item.path.stem != "test_compiles":
                item.add_marker(pytest.mark.skip(reason=reason))
            elif SIMULATED and item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a GPU, not the simulator"))


@pytest.fixture(autouse=True)
def _settle_soon(monkeypatch):
    """Use two settling sweeps in the simulator, since ten would take most of the time."""
    if SIMULATED:
        monkeypatch.setattr(step, "SETTLING_SWEEPS", 2)


@pytest.fixture
def tiny():
    """Whether grids must be tiny."""
    return SIMULATED
