"""Tasks with their flows on the device."""

from pathlib import Path

import numpy as np
import pytest

import cases  # noqa: F401
from cases.d_cylinder_wake import env as wake
from cases.d_cylinder_wake.env import DCylinderWakeVectorEnv
from cases.elliptical_swimmer.env import EllipticalSwimmerVectorEnv
from cases.initial_flows import Development
from cases.open_cavity import env as cavity


def assert_same(seen: list) -> None:
    """Observations, rewards, flags and loads."""
    cpu, cuda = seen
    for expected, got in zip(cpu[:5], cuda[:5], strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)
    for name in ("drag", "lift", "torque", "power", "solver_steps"):
        np.testing.assert_allclose(
            np.stack(cuda[5][name]).astype(float), np.stack(cpu[5][name]).astype(float), atol=1e-8
        )


def test_an_action_is_the_same_on_both_backends(tiny: bool) -> None:
    options = {
        "cells_per_diameter": 4.0 if tiny else 32.0,
        "dtype": "float64",
        "action_time": 0.1 if tiny else 1.0,
    }
    seen = []
    for backend in ("cpu", "cuda"):
        env = EllipticalSwimmerVectorEnv(1, backend=backend, **options)
        seen.append([env.reset(seed=5)[0], *env.step(np.array([[0.3, -0.2, 0.1]]))])
    assert_same(seen)


@pytest.mark.gpu
def test_agent_leaving_the_box_is_the_same_on_both_backends() -> None:
    """One agent leaves the box in the first step of an action, and is reset within it."""
    seen = []
    for backend in ("cpu", "cuda"):
        options = {
            "cells_per_diameter": 16,
            "start": "impulsive",
            "start_range": "paper",
            "dtype": "float64",
        }
        env = DCylinderWakeVectorEnv(2, autoreset_mode="SameStep", backend=backend, **options)
        observations, _ = env.reset(seed=5)
        env.task.simulation.body_state.position[1, 1] = (2.29, 2.0)
        seen.append([observations, *env.step(np.array([[0.3, -0.2, 0.1], [-1.0, 0.0, 0.0]]))])
    assert_same(seen)
    assert seen[0][3].tolist() == [False, True]


@pytest.mark.slow  # two bodies, thread by thread
def test_a_batch_starts_as_on_the_cpu(
    tiny: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both simulations at once, with wakes stored on the device."""
    monkeypatch.setenv("FLOWSIM_CACHE", str(tmp_path))
    short = Development(time=0.5, snapshots=3, spacing=0.25, bodies=1)
    monkeypatch.setattr(wake, "DEVELOPMENT", short)
    options = {"cells_per_diameter": 4 if tiny else 16, "dtype": "float64"}
    cpu, cuda = (
        DCylinderWakeVectorEnv(2, backend=backend, **options) for backend in ("cpu", "cuda")
    )
    for env in (cpu, cuda):
        env.episodes.start({index: np.random.default_rng(index) for index in (1, 0)})
    for b in range(2):
        expected, got = (env.task.simulation.get_state(b) for env in (cpu, cuda))
        del expected["sides"]  # values beyond the ends of a side are undefined
        for name, values in expected.items():
            np.testing.assert_allclose(got[name], values, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(cuda.task.simulation.sensed, cpu.task.simulation.sensed, atol=1e-9)


@pytest.mark.slow  # 48 x 30 cells, thread by thread
def test_deviation_energy_is_the_same_on_both_backends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOWSIM_CACHE", str(tmp_path))
    short = Development(time=0.5, snapshots=3, spacing=0.25, push=0.0, split=True)
    monkeypatch.setattr(cavity, "DEVELOPMENT", short)
    monkeypatch.setattr(cavity, "STEADY", Development(0.5, 1, 0.25, push=0.0, damping=(1.2, 0.5)))
    seen, energies = [], []
    for backend in ("cpu", "cuda"):
        env = cavity.OpenCavityVectorEnv(
            1, backend=backend, cells_per_diameter=20, dtype="float64", action_time=0.02
        )
        seen.append([env.reset(seed=5)[0], *env.step(np.array([[0.5]]))])
        energies.append(env.task.energy())
    assert_same(seen)
    assert energies[0] > 0.0
    np.testing.assert_allclose(energies[1], energies[0], rtol=1e-6)
