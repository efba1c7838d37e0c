"""Kernels do not depend on the order in which blocks and threads run, which a device does not define."""

import contextlib

import numpy as np
import pytest
from numba import config, cuda
from test_equality import pair

if config.ENABLE_CUDASIM:
    from simulator import shuffled

CASES = (
    "wake", "on springs, held, light", "swimmers that meet", "jets", "far field, driven", "convection",
)  # fmt: skip
"""With every kernel in which blocks have something to do with each other."""


def end_of(name: str, seed: int | None) -> dict[str, np.ndarray]:
    """Return the state after two steps, the sensors and the forces; blocks in their order without a ``seed``."""
    _, sim = pair(name, "float64", tiny=True)
    with contextlib.nullcontext() if seed is None else shuffled(seed):
        sim.body_state.applied_force[1, :] = (0.1, 0.2)
        sim.target_jet_flow_rates[:] = 0.2
        sim.advance_steps(2)
        sim.fill_ghosts()
    bodies = {f"body {key}": value.copy() for key, value in vars(sim.body_state).items()}
    return sim.get_state(0) | bodies | {"sensed": sim.sensed.copy(), "dt": sim.dt.copy()}


@pytest.mark.parametrize("name", CASES)
def test_any_order_of_blocks_gives_the_same_bits(name: str) -> None:
    if not config.ENABLE_CUDASIM:
        pytest.skip("the simulator alone can choose the order of blocks")
    expected, got = end_of(name, None), end_of(name, seed=len(name))
    for key, value in expected.items():
        np.testing.assert_array_equal(got[key], value, err_msg=key)


def test_blocks_are_shuffled() -> None:
    """The order in which blocks write differs from the unshuffled one."""
    if not config.ENABLE_CUDASIM:
        pytest.skip("the simulator alone can choose the order of blocks")

    @cuda.jit
    def note(order: np.ndarray) -> None:
        order[cuda.atomic.add(order, 64, 1)] = cuda.blockIdx.x

    orders = []
    for seed in (None, 1, 2):
        order = np.zeros(65, np.int64)
        with contextlib.nullcontext() if seed is None else shuffled(seed):
            note[64, 1](order)
        orders.append(order[:64].tolist())
    assert orders[0] == list(range(64))
    assert orders[1] != orders[0]
    assert orders[1] != orders[2]
    assert sorted(orders[1]) == sorted(orders[2]) == orders[0]
