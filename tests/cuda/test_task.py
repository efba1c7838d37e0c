"""The benchmark task with its flows on the device."""

import numpy as np

import cases  # noqa: F401
from cases.d_cylinder_wake.env import DCylinderWakeVectorEnv


def test_the_task_is_the_same_on_both_backends(tiny: bool) -> None:
    """Observations, rewards, flags and loads of two actions, one of which loses an agent."""
    options = {
        "cells_per_diameter": 4.0 if tiny else 16.0, "start": "impulsive", "dtype": "float64",
        "action_time": 0.13 if tiny else 1.0, "start_range": "paper",
    }  # fmt: skip
    envs = [DCylinderWakeVectorEnv(2, backend=backend, **options) for backend in ("cpu", "cuda")]
    seen = []
    for env in envs:
        observations, _ = env.reset(seed=5)
        env.task.simulation.body_state.position[1, 1] = (2.31, 2.0)  # its next place is outside the box
        action = np.array([[0.3, -0.2, 0.1], [-1.0, 0.0, 0.0]])
        seen.append([observations, *env.step(action)])
    cpu, cuda = seen
    for expected, got in zip(cpu[:5], cuda[:5], strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)
    assert cpu[3].tolist() == [False, True]
    for name in ("drag", "lift", "torque", "power", "solver_steps"):
        np.testing.assert_allclose(
            np.stack(cuda[5][name]).astype(float), np.stack(cpu[5][name]).astype(float), atol=1e-8
        )
